#include "problem/scaling.hpp"

#include <cmath>

#include "linalg/norms.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

constexpr int ruiz_passes = 10;
constexpr double settled = 0.02;  // of a pass's factors
constexpr double smallest_factor = 1e-6;
constexpr double largest_factor = 1e6;

/// 1 / sqrt(norm), such that the accumulated factor stays within its limits; an empty row keeps its scale.
Vector ruiz_step(const Vector& norms, const Vector& factors) {
  Vector step(norms.size());
  for (Index i = 0; i < norms.size(); ++i) {
    const double wanted = norms[i] > 0 ? 1 / std::sqrt(norms[i]) : 1.0;
    step[i] = std::clamp(wanted, smallest_factor / factors[i], largest_factor / factors[i]);
  }
  return step;
}

/// Another pass would change next to nothing.
bool close_to_one(const Vector& step) { return ((step.array() - 1).abs() <= settled).all(); }

void scale(DenseMatrix& X, const Vector& left, const Vector& right) {
  X.array().colwise() *= left.array();
  X.array().rowwise() *= right.transpose().array();
}

/// Zeros that are stored take part in a factorisation as if they were not.
void drop_zeros(DenseMatrix& /*X*/) {}
void drop_zeros(SparseMatrix& X) {
  X.prune([](Index, Index, double value) { return value != 0; });
}

void scale(SparseMatrix& X, const Vector& left, const Vector& right) {
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it) it.valueRef() *= left[it.row()] * right[j];
}

/// 1 / norm, within the limits; a row of zeros by the size of its limit, which is all that it has.
Vector unit_factors(const Vector& norms, const Vector& limits) {
  Vector factors(norms.size());
  for (Index i = 0; i < norms.size(); ++i) {
    const double size = norms[i] > 0 ? norms[i] : std::abs(limits[i]);
    factors[i] = size > 0 ? std::clamp(1 / size, smallest_factor, largest_factor) : 1.0;
  }
  return factors;
}

/// Without the rows that hold for every x: those with h = inf, and 0 x <= h with h >= 0. However large such
/// an h, it would set the size of the slacks.
template <Matrix M>
std::vector<Index> rows_with_a_say(const QuadraticProgram<M>& qp) {
  std::vector<Index> rows = finite_rows(qp.h);
  const Vector norms = row_norms(qp.G);
  std::erase_if(rows, [&](Index i) { return norms[i] == 0 && qp.h[i] >= 0; });
  return rows;
}

constexpr double far_apart = 1e6;
constexpr double largest_square = 1e150;  // numbers whose squares are beyond doubles are beyond scaling
constexpr double no_curvature = 1e-9;     // beside q: an x of order one does not notice it

}  // namespace

template <Matrix M>
ScaledProgram<M>::ScaledProgram(const QuadraticProgram<M>& user, ScalingStart start)
    : qp(user),
      D(Vector::Ones(user.n())),
      E_a(Vector::Ones(user.p())),
      rows(rows_with_a_say(user)),
      m_user(user.m()) {
  if (rows.size() < static_cast<std::size_t>(m_user)) {
    qp.G = pick_rows(user.G, rows);
    qp.h = user.h(rows);
  }
  E_g = Vector::Ones(qp.m());
  drop_zeros(qp.P);
  drop_zeros(qp.A);
  drop_zeros(qp.G);
  if (start != ScalingStart::Data)
    start_at_unit_rows();
  else
    temper_objective();
  if (start != ScalingStart::RowsOnly) equilibrate();
  scale_vectors();
}

/// Passes of (S2) do not bring together what is further apart than this.
template <Matrix M>
void ScaledProgram<M>::temper_objective() {
  const double curvature = largest_number(qp.P);
  const double largest_row = std::max(largest_number(qp.A), largest_number(qp.G));
  if (curvature == 0 || largest_row == 0) return;
  const double ratio = curvature / largest_row;
  if (ratio > 1 / far_apart && ratio < far_apart) return;
  c = 1 / ratio;
  qp.P *= c;
}

template <Matrix M>
void ScaledProgram<M>::start_at_unit_rows() {
  E_a = unit_factors(row_norms(qp.A), qp.b);
  E_g = unit_factors(row_norms(qp.G), qp.h);
  const Vector ones = Vector::Ones(qp.n());
  scale(qp.A, E_a, ones);
  scale(qp.G, E_g, ones);
  const double curvature = largest_number(qp.P);
  if (curvature > 0) c = 1 / curvature;
  qp.P *= c;
}  // (S3), (S4)

template <Matrix M>
void ScaledProgram<M>::equilibrate() {
  for (int pass = 0; pass < ruiz_passes; ++pass) {
    const Vector columns = column_norms(qp.P).cwiseMax(column_norms(qp.A)).cwiseMax(column_norms(qp.G));
    const Vector d = ruiz_step(columns, D);
    const Vector e_a = ruiz_step(row_norms(qp.A), E_a);
    const Vector e_g = ruiz_step(row_norms(qp.G), E_g);
    scale(qp.P, d, d);
    scale(qp.A, e_a, d);
    scale(qp.G, e_g, d);
    D.array() *= d.array();
    E_a.array() *= e_a.array();
    E_g.array() *= e_g.array();
    if (close_to_one(d) && close_to_one(e_a) && close_to_one(e_g)) break;
  }  // (S2)
}

template <Matrix M>
void ScaledProgram<M>::scale_vectors() {
  qp.q.array() *= c * D.array();
  // P sets the scale where there is one: the finish adds sigma to it, and must not drown it.
  const double slope = qp.q.cwiseAbs().maxCoeff();
  const double curvature = largest_number(qp.P);
  const double least = slope < largest_square ? no_curvature * slope : 0.0;
  const double size = curvature > 0 ? std::max(curvature, least) : slope;
  const double factor = size > 0 ? 1 / size : 1.0;
  c *= factor;
  qp.P *= factor;
  qp.q *= factor;
  qp.b.array() *= E_a.array();
  qp.h.array() *= E_g.array();
  qp.lb.array() /= D.array();
  qp.ub.array() /= D.array();
}

template <Matrix M>
Point ScaledProgram<M>::from_user(const Point& v) const {
  return {.x = v.x.cwiseQuotient(D),
          .y = c * v.y.cwiseQuotient(E_a),
          .z = c * v.z(rows).cwiseQuotient(E_g),
          .z_box = c * v.z_box.cwiseProduct(D)};
}

template <Matrix M>
PointBlock ScaledProgram<M>::right_side_from_user(const PointBlock& r) const {
  return {.x = (c * D).asDiagonal() * r.x,
          .y = E_a.asDiagonal() * r.y,
          .z = E_g.asDiagonal() * r.z(rows, Eigen::all),
          .z_box = D.cwiseInverse().asDiagonal() * r.z_box};
}

template struct ScaledProgram<DenseMatrix>;
template struct ScaledProgram<SparseMatrix>;

}  // namespace altdiff::detail
