#include "derivatives/rounds.hpp"

#include <cmath>
#include <limits>

#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double rounding = std::numeric_limits<double>::epsilon();

double norm_of(const PointBlock& v) { return std::max({norm(v.x), norm(v.y), norm(v.z), norm(v.z_box)}); }

/// Relative to `scale`: squares of the numbers themselves may overflow.
double length_of(const PointBlock& v, double scale) {
  return std::sqrt((v.x / scale).squaredNorm() + (v.y / scale).squaredNorm() + (v.z / scale).squaredNorm() +
                   (v.z_box / scale).squaredNorm());
}

/// Rows outside the set have no multiplier and no residual.
void restrict_to(const ActiveSet& S, const Vector& box_mask, PointBlock& v) {
  v.z = S.z.asDiagonal() * v.z;
  v.z_box = box_mask.asDiagonal() * v.z_box;
}

template <Matrix M>
void residual(const QuadraticProgram<M>& qp, const Compliance* give, const PointBlock& right_side,
              const PointBlock& t, PointBlock& r) {
  r.x = -right_side.x - t.z_box;
  r.y = -right_side.y;
  r.z = -right_side.z;
  r.z_box = -right_side.z_box - t.x;
  add_product(-1, qp.P, t.x, r.x);
  add_transposed_product(-1, qp.A, t.y, r.x);
  add_transposed_product(-1, qp.G, t.z, r.x);
  add_product(-1, qp.A, t.x, r.y);
  add_product(-1, qp.G, t.x, r.z);
  if (give == nullptr) return;
  r.y += give->y.asDiagonal() * t.y;
  r.z += give->z.asDiagonal() * t.z;
  r.z_box += give->box.asDiagonal() * t.z_box;  // (W1)
}

PointBlock zeros_like(const PointBlock& v) {
  return {.x = DenseMatrix::Zero(v.x.rows(), v.x.cols()),
          .y = DenseMatrix::Zero(v.y.rows(), v.y.cols()),
          .z = DenseMatrix::Zero(v.z.rows(), v.z.cols()),
          .z_box = DenseMatrix::Zero(v.z_box.rows(), v.z_box.cols())};
}

/// Variables that strict bounds hold have the values that these say. From the start: rows that are dependent
/// together with the bounds would otherwise begin with limits that contradict each other, and large
/// multipliers that nothing takes back.
template <class System>
void hold(const System& system, const PointBlock& right_side, PointBlock& t) {
  for (Index j = 0; j < t.x.rows(); ++j)
    if (system.holds(j)) t.x.row(j) = -right_side.z_box.row(j);
}

/// What acts on a variable that is held becomes the multiplier of its bound.
template <class System>
void balance_held(const System& system, PointBlock& r, PointBlock& t) {
  for (Index j = 0; j < t.x.rows(); ++j) {
    if (!system.holds(j)) continue;
    t.z_box.row(j) += r.x.row(j);
    r.x.row(j).setZero();
  }
}

void add(PointBlock& t, const PointBlock& step) {
  t.x += step.x;
  t.y += step.y;
  t.z += step.z;
  t.z_box += step.z_box;
}

}  // namespace

template <Matrix M>
RoundReport alternating_rounds(const QuadraticProgram<M>& qp, const AugmentedSystem<M>& system,
                               const ActiveSet& S, const PointBlock& right_side, PointBlock& t,
                               const RoundLimits& limits) {
  const Vector box_mask = S.box_mask();
  const Compliance* give = S.soft() ? &S.give : nullptr;
  Vector workspace(system.workspace_size(right_side.x.cols()));
  PointBlock b = right_side;
  restrict_to(S, box_mask, b);
  restrict_to(S, box_mask, t);
  hold(system, b, t);
  double scale = std::max(norm_of(b), std::numeric_limits<double>::min());

  RoundReport report{.residual = std::numeric_limits<double>::infinity()};
  PointBlock best = t;
  PointBlock r = b;
  double shortest = report.residual;
  double reference = report.residual;
  bool met = false;
  for (int k = 0, idle = 0;; ++k, ++idle) {
    residual(qp, give, b, t, r);
    restrict_to(S, box_mask, r);
    balance_held(system, r, t);
    if (k == 0) scale = std::max(scale, rounding * norm_of(r));  // data may be zero where the start is not
    const double error = norm_of(r) / scale;                     // (R4)
    // Progress is judged by length: the largest entry may be one that no solution can bring down.
    const double length = length_of(r, scale);
    if (k == 0 || length < shortest) {
      shortest = length;
      best = t;
      report = {.rounds = k, .enough = report.enough, .residual = error};
    }
    if (length < 0.5 * reference) {
      reference = length;
      report.enough = k;
      idle = 0;
    }
    if (met || error == 0 || !(error < 1e30) || k == limits.max_rounds || idle > limits.patience) break;
    met = error <= limits.tolerance;
    system.solve(r.x, r.y, r.z, r.z_box, workspace);
    restrict_to(S, box_mask, r);
    add(t, r);  // (A3)
  }
  t = std::move(best);
  return report;
}

template <Matrix M>
PointBlock fixed_rounds(const QuadraticProgram<M>& qp, const AugmentedSystem<M>& system, const ActiveSet& S,
                        const PointBlock& right_side, PointBlock& t, const RoundCount& count,
                        const AfterRound& another) {
  const Vector box_mask = S.box_mask();
  const Compliance* give = S.soft() ? &S.give : nullptr;
  Vector workspace(system.workspace_size(right_side.x.cols()));
  PointBlock b = right_side;
  restrict_to(S, box_mask, b);
  t = zeros_like(b);
  hold(system, b, t);
  PointBlock r = t;
  PointBlock step = t;
  const auto measure = [&] {
    residual(qp, give, b, t, r);
    restrict_to(S, box_mask, r);
  };
  measure();
  for (int k = 0; k < count.rounds + count.on_rows; ++k) {
    step = r;
    if (k >= count.rounds) step.x.setZero();
    system.solve(step.x, step.y, step.z, step.z_box, workspace);
    restrict_to(S, box_mask, step);
    add(t, step);  // (A3)
    measure();
    if (another && !another(r)) break;
  }
  balance_held(system, r, t);
  return r;
}

template <Matrix M>
PointBlock right_side_of(const QuadraticProgram<M>& qp, const ActiveSet& S, PointBlock t) {
  const Vector box_mask = S.box_mask();
  restrict_to(S, box_mask, t);
  const PointBlock zero = zeros_like(t);
  PointBlock r = zero;
  residual(qp, S.soft() ? &S.give : nullptr, zero, t, r);
  restrict_to(S, box_mask, r);
  return r;
}

template PointBlock fixed_rounds(const QuadraticProgram<DenseMatrix>&, const AugmentedSystem<DenseMatrix>&,
                                 const ActiveSet&, const PointBlock&, PointBlock&, const RoundCount&,
                                 const AfterRound&);
template PointBlock fixed_rounds(const QuadraticProgram<SparseMatrix>&, const AugmentedSystem<SparseMatrix>&,
                                 const ActiveSet&, const PointBlock&, PointBlock&, const RoundCount&,
                                 const AfterRound&);
template PointBlock right_side_of(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, PointBlock);
template PointBlock right_side_of(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, PointBlock);
template RoundReport alternating_rounds(const QuadraticProgram<DenseMatrix>&,
                                        const AugmentedSystem<DenseMatrix>&, const ActiveSet&,
                                        const PointBlock&, PointBlock&, const RoundLimits&);
template RoundReport alternating_rounds(const QuadraticProgram<SparseMatrix>&,
                                        const AugmentedSystem<SparseMatrix>&, const ActiveSet&,
                                        const PointBlock&, PointBlock&, const RoundLimits&);

}  // namespace altdiff::detail
