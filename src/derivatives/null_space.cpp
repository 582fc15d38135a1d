#include "derivatives/null_space.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <limits>
#include <utility>

#include "derivatives/on_set.hpp"
#include "linalg/norms.hpp"
#include "linalg/rank_revealing.hpp"

namespace altdiff::detail {

namespace {

constexpr double dependent_tol = 2e-9;   // pivot of a row, relative to the largest: the sine of an angle
constexpr double flat_tol = 1e-11;       // curvature, relative to the largest number of P
constexpr double clearly_curved = 1e-6;  // a pivot, likewise: no eigenvalue is in doubt
constexpr double rounding = 100 * std::numeric_limits<double>::epsilon();
constexpr int corrections = 2;

using Eigen::all;

DenseMatrix dense_rows(const SparseMatrix& X, const std::vector<Index>& rows) {
  const DenseMatrix full(X);
  return full(rows, all);
}

}  // namespace

RowLengths::RowLengths(const QuadraticProgram<SparseMatrix>& qp, const Vector& D) : box(D.cwiseInverse()) {
  const auto lengths = [&](const SparseMatrix& rows) -> Vector {
    const Vector found = (DenseMatrix(rows) * box.asDiagonal()).rowwise().norm();
    return (found.array() > 0).select(found, 1.0);
  };
  y = lengths(qp.A);
  z = lengths(qp.G);
}

NullSpace::NullSpace(const QuadraticProgram<SparseMatrix>& qp, ActiveSet set, const RowLengths& lengths)
    : set_(std::move(set)), H_(qp.P), box_weights_(Vector::Zero(qp.n())) {
  const auto give = [&](const Vector& of, Index i) { return set_.soft() ? of[i] : 0.0; };
  for (Index j = 0; j < qp.n(); ++j) (set_.holds(j) ? held_ : free_).push_back(j);
  for (Index i = 0; i < qp.m(); ++i)
    if (set_.z[i] != 0) (give(set_.give.z, i) > 0 ? soft_ : strict_).push_back(i);
  rows_.resize(qp.p() + std::ssize(strict_), qp.n());
  rows_ << DenseMatrix(qp.A), dense_rows(qp.G, strict_);
  soft_rows_ = dense_rows(qp.G, soft_);
  const DenseMatrix P = H_(free_, free_);
  if (set_.soft()) {
    weights_ = set_.give.z(soft_).cwiseInverse();
    for (Index j = 0; j < qp.n(); ++j)
      if (set_.box[j] != 0 && set_.give.box[j] > 0) box_weights_[j] = 1 / set_.give.box[j];
    H_ += soft_rows_.transpose() * weights_.asDiagonal() * soft_rows_;
    H_.diagonal() += box_weights_;  // (W1)
  }
  C_ = rows_(all, free_);
  const RankRevealing factors(C_.transpose(), dependent_tol);
  rank_ = factors.rank();
  Z_ = factors.complement();
  C_inverse_ =
      independent() ? DenseMatrix(factors.pseudo_inverse().transpose()) : inverse_by(lengths);  // (Z1)
  find_curvature(norm(P));
}

/// C+ where rows depend on each other: with multipliers that are least in other units.
DenseMatrix NullSpace::inverse_by(const RowLengths& lengths) const {
  Vector units(C_.rows());
  units << lengths.y, lengths.z(strict_);
  const RankRevealing factors(units.cwiseInverse().asDiagonal() * C_, dependent_tol);
  return factors.pseudo_inverse() * units.cwiseInverse().asDiagonal();
}

/// N, and the directions of Z in which there is no curvature.
void NullSpace::find_curvature(double largest_P) {
  const DenseMatrix& Z = Z_;
  N_ = DenseMatrix::Zero(count(), count());
  flat_.resize(count(), 0);
  if (Z.cols() == 0) return;
  const DenseMatrix product = Z.transpose() * H_(free_, free_) * Z;
  const DenseMatrix reduced = 0.5 * (product + product.transpose());
  if (const Eigen::LLT<DenseMatrix> factor(reduced);
      factor.info() == Eigen::Success &&
      factor.matrixLLT().diagonal().minCoeff() > std::sqrt(clearly_curved * largest_P)) {
    const DenseMatrix root = factor.matrixL().solve(Z.transpose());
    N_ = root.transpose() * root;
    return;
  }
  const Eigen::SelfAdjointEigenSolver<DenseMatrix> values(reduced);
  const double zero = std::max(flat_tol * largest_P, rounding * norm(H_(free_, free_)));
  const Index flat = (values.eigenvalues().array() <= zero).count();  // in ascending order
  const DenseMatrix curved = Z * values.eigenvectors().rightCols(Z.cols() - flat);
  const Vector inverse = values.eigenvalues().tail(Z.cols() - flat).cwiseInverse();
  N_ = curved * inverse.asDiagonal() * curved.transpose();
  flat_ = Z * values.eigenvectors().leftCols(flat);  // (Z2)
}

void NullSpace::find_maps() const {
  std::call_once(once_, [this] {
    const DenseMatrix H = H_(free_, free_);
    const DenseMatrix HC = H * C_inverse_;
    B_ = C_inverse_ - N_ * HC;
    const DenseMatrix product = HC.transpose() * B_;
    M_ = 0.5 * (product + product.transpose());  // (Z2)
  });
}

PointBlock NullSpace::solve(const PointBlock& right_side) const {
  find_maps();
  const Index columns = right_side.x.cols();
  const Index p = right_side.y.rows();
  PointBlock t{.x = DenseMatrix::Zero(right_side.x.rows(), columns),
               .y = DenseMatrix::Zero(p, columns),
               .z = DenseMatrix::Zero(right_side.z.rows(), columns),
               .z_box = DenseMatrix::Zero(right_side.x.rows(), columns)};
  t.x(held_, all) = -right_side.z_box(held_, all);
  DenseMatrix r = right_side.x + box_weights_.asDiagonal() * right_side.z_box;
  if (!soft_.empty()) r += soft_rows_.transpose() * weights_.asDiagonal() * right_side.z(soft_, all);
  r += H_(all, held_) * t.x(held_, all);
  DenseMatrix c(rows_.rows(), columns);
  c << right_side.y, right_side.z(strict_, all);
  c += rows_(all, held_) * t.x(held_, all);
  const DenseMatrix r_free = r(free_, all);
  t.x(free_, all) = -(N_ * r_free) - B_ * c;
  const DenseMatrix multipliers = M_ * c - B_.transpose() * r_free;  // (Z3)
  t.y = multipliers.topRows(p);
  t.z(strict_, all) = multipliers.bottomRows(multipliers.rows() - p);
  if (!soft_.empty()) t.z(soft_, all) = weights_.asDiagonal() * (soft_rows_ * t.x + right_side.z(soft_, all));
  t.z_box = box_weights_.asDiagonal() * (t.x + right_side.z_box);
  t.z_box(held_, all) =
      -r(held_, all) - H_(held_, free_) * t.x(free_, all) - rows_(all, held_).transpose() * multipliers;
  return t;
}

DenseMatrix NullSpace::flat_part(const DenseMatrix& columns) const {
  DenseMatrix part = DenseMatrix::Zero(columns.rows(), columns.cols());
  part(free_, all) = flat_ * (flat_.transpose() * columns(free_, all));
  return part;
}

DenseMatrix NullSpace::response(const DenseMatrix& rows) const {
  const DenseMatrix of_free = rows(free_, all);
  return of_free.transpose() * N_ * of_free;
}

void NullSpace::polish(const QuadraticProgram<SparseMatrix>& qp, Point& point) const {
  PointBlock t{.x = point.x, .y = point.y, .z = point.z, .z_box = point.z_box};
  for (int pass = 0; pass < corrections; ++pass) {
    PointBlock left = data_of(qp, set_);
    const PointBlock product = right_side_of(qp, set_, t);
    left.x -= product.x;
    left.y -= product.y;
    left.z -= product.z;
    left.z_box -= product.z_box;
    const PointBlock d = solve(left);
    t.x += d.x;
    t.y += d.y;
    t.z += d.z;
    t.z_box += d.z_box;
  }
  if (t.x.allFinite()) point = {.x = t.x, .y = t.y, .z = t.z, .z_box = t.z_box};
}

}  // namespace altdiff::detail
