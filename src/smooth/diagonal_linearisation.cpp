#include "smooth/diagonal_linearisation.hpp"

#include "linalg/at.hpp"
#include "linalg/dense.hpp"

namespace altdiff::detail {

DiagonalLinearisation::DiagonalLinearisation(const Instance& instance, const DualNewton& engine)
    : matrices_(instance.matrices),
      D_(engine.D),
      H_bound_(engine.bound_curvature()),
      side_(engine.side),
      rows_(engine.rows),
      factor_(engine.factor()),
      refinements_(engine.refinements) {}

Eigen::Map<const Vector> DiagonalLinearisation::row(Index r) const {
  const Index n = matrices_.n;
  const double* data = r < matrices_.p ? matrices_.A + r * n : matrices_.G + (r - matrices_.p) * n;
  return {data, n};
}

Vector DiagonalLinearisation::pulled(const Vector& v) const {
  Vector sum = Vector::Zero(matrices_.n);
  for (std::size_t i = 0; i < rows_.size(); ++i) sum += v[static_cast<Index>(i)] * row(rows_[i]);
  return sum;
}

void DiagonalLinearisation::subtract_rows(const Vector& moved, Vector& v) const {
  for (std::size_t i = 0; i < rows_.size(); ++i) v[static_cast<Index>(i)] -= row(rows_[i]).dot(moved);
}

/// The factor may be of an M nearby (N12): then each refinement gains as many digits as they share.
void DiagonalLinearisation::solve_with_M(Vector& v) const {
  const auto solve_with_factor = [&](Vector& right_side) {
    triangular_solve(Op::None, factor_, right_side);
    triangular_solve(Op::Transpose, factor_, right_side);
  };
  const Vector right_side = v;
  solve_with_factor(v);
  for (int round = 0; round < refinements_; ++round) {
    Vector rest = right_side;
    subtract_rows(D_.cwiseProduct(pulled(v)), rest);
    solve_with_factor(rest);
    v += rest;
  }
}

/// With B the bounds that hold and F the other variables:
///     x_B = -r_box,   M v = r_S - C_S (D r_x + I_B'r_box),   x_F = -D (r_x + C_S'v),   z_box = -(r_x + H x +
///     C_S'v)_B
PointBlock DiagonalLinearisation::solve(const PointBlock& r) const {
  const Index n = matrices_.n;
  const Index columns = r.x.cols();
  const auto k = static_cast<Index>(rows_.size());
  const auto at_bound = (side_.array() != 0);
  PointBlock t{.x = DenseMatrix(n, columns),
               .y = DenseMatrix::Zero(matrices_.p, columns),
               .z = DenseMatrix::Zero(matrices_.m, columns),
               .z_box = DenseMatrix::Zero(n, columns)};
  Vector v(k);
  for (Index c = 0; c < columns; ++c) {
    const Vector fixed = at_bound.select(r.z_box.col(c), 0.0);
    const Vector moved = D_.cwiseProduct(r.x.col(c)) + fixed;
    for (Index i = 0; i < k; ++i) {
      const Index s = rows_[at(i)];
      v[i] = s < matrices_.p ? r.y(s, c) : r.z(s - matrices_.p, c);
    }
    subtract_rows(moved, v);
    solve_with_M(v);
    const Vector pull = r.x.col(c) + pulled(v);
    for (Index i = 0; i < k; ++i) {
      const Index s = rows_[at(i)];
      (s < matrices_.p ? t.y(s, c) : t.z(s - matrices_.p, c)) = v[i];
    }
    t.x.col(c) = -D_.cwiseProduct(pull) - fixed;
    t.z_box.col(c) = at_bound.select(H_bound_.cwiseProduct(fixed) - pull, 0.0);
  }
  return t;
}

ActiveSet DiagonalLinearisation::active() const {
  ActiveSet set{.z = Vector::Zero(matrices_.m), .box = side_};
  for (const Index s : rows_)
    if (s >= matrices_.p) set.z[s - matrices_.p] = 1;
  return set;
}

}  // namespace altdiff::detail
