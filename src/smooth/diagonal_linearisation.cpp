#include "smooth/diagonal_linearisation.hpp"

#include "linalg/dense.hpp"

namespace altdiff::detail {

namespace {
std::size_t at(Index i) { return static_cast<std::size_t>(i); }
}  // namespace

DiagonalLinearisation::DiagonalLinearisation(const Instance& instance, const DualNewton& engine)
    : matrices_(instance.matrices),
      D_(engine.D),
      H_bound_(engine.bound_curvature()),
      side_(engine.side),
      rows_(engine.rows),
      factor_(engine.factor()) {}

Eigen::Map<const Vector> DiagonalLinearisation::row(Index r) const {
  const Index n = matrices_.n;
  const double* data = r < matrices_.p ? matrices_.A + r * n : matrices_.G + (r - matrices_.p) * n;
  return {data, n};
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
  Vector pull(n);
  for (Index c = 0; c < columns; ++c) {
    const Vector fixed = at_bound.select(r.z_box.col(c), 0.0);
    const Vector moved = D_.cwiseProduct(r.x.col(c)) + fixed;
    for (Index i = 0; i < k; ++i) {
      const Index s = rows_[at(i)];
      const double limit = s < matrices_.p ? r.y(s, c) : r.z(s - matrices_.p, c);
      v[i] = limit - row(s).dot(moved);
    }
    triangular_solve(Op::None, factor_, v);
    triangular_solve(Op::Transpose, factor_, v);
    pull = r.x.col(c);
    for (Index i = 0; i < k; ++i) {
      const Index s = rows_[at(i)];
      pull += v[i] * row(s);
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
