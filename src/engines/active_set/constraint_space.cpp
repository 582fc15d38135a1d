#include "engines/active_set/constraint_space.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "linalg/dense.hpp"

namespace altdiff::detail {

namespace {

constexpr double follows = 1e-11;       // an equality whose pivot falls below this share follows from others
constexpr double nearly_singular = 1e-13;  // of P's pivots, relative to its diagonal
constexpr Index tile = 16;              // of a blocked transposition

struct Triangle {
  double largest = 0;
  bool symmetric = true;
};

/// The lower triangle of the symmetric part of P, tile by tile so that both halves stay in cache.
Triangle copy_symmetric_part(const MatricesView::Rows& P, Block target) {
  const Index n = P.rows();
  double largest = 0;
  double asymmetry = 0;
  for (Index j0 = 0; j0 < n; j0 += tile)
    for (Index i0 = j0; i0 < n; i0 += tile)
      for (Index j = j0; j < std::min(j0 + tile, n); ++j)
        for (Index i = std::max(i0, j); i < std::min(i0 + tile, n); ++i) {
          const double value = 0.5 * (P(i, j) + P(j, i));
          asymmetry = std::max(asymmetry, std::abs(P(i, j) - P(j, i)));
          largest = std::max(largest, std::abs(value));
          target(i, j) = value;
        }
  return {.largest = largest, .symmetric = asymmetry == 0};
}

/// target = rows', tile by tile
void transpose(const ConstBlock& rows, Block target) {
  for (Index j0 = 0; j0 < rows.cols(); j0 += tile)
    for (Index i0 = 0; i0 < rows.rows(); i0 += tile)
      for (Index i = i0; i < std::min(i0 + tile, rows.rows()); ++i)
        for (Index j = j0; j < std::min(j0 + tile, rows.cols()); ++j) target(j, i) = rows(i, j);
}

/// Rows of a positive semidefinite matrix that do not follow from those before them.
std::vector<Index> independent_rows(const ConstBlock& M) {
  std::vector<Index> kept;
  DenseMatrix factor = DenseMatrix::Zero(M.rows(), M.rows());  // row by row, over the kept ones
  for (Index i = 0; i < M.rows(); ++i) {
    double pivot = M(i, i);
    for (std::size_t s = 0; s < kept.size(); ++s) {
      const auto column = static_cast<Index>(s);
      const Index j = kept[s];
      const double sum = M(i, j) - factor.row(i).head(column).dot(factor.row(j).head(column));
      factor(i, column) = sum / factor(j, column);
      pivot -= factor(i, column) * factor(i, column);
    }
    if (pivot > follows * M(i, i)) {
      factor(i, static_cast<Index>(kept.size())) = std::sqrt(pivot);
      kept.push_back(i);
    }
  }
  return kept;
}

}  // namespace

ConstraintSpace::ConstraintSpace(const MatricesView& data, const std::vector<Index>& bounded, double* memory)
    : n_(data.n),
      p_(data.p),
      k_(data.m + static_cast<Index>(bounded.size())),
      rows_(n_ + p_ + k_),
      T_(memory),
      M_(memory + rows_ * n_),
      equalities_(static_cast<std::size_t>(p_)),
      lengths_(k_) {
  std::iota(equalities_.begin(), equalities_.end(), Index{0});
  stack(data, bounded, equalities_);
  if (!sweep()) return;
  if (!eliminate_equalities()) {
    const std::vector<Index> kept = independent_rows(View{M_, p_, p_, Eigen::OuterStride<>(p_ + k_)});
    p_ = static_cast<Index>(kept.size());
    rows_ = n_ + p_ + k_;
    stack(data, bounded, kept);
    equalities_ = kept;
    if (!sweep() || !eliminate_equalities()) return;
  }
  usable_ = true;
}

void ConstraintSpace::stack(const MatricesView& data, const std::vector<Index>& bounded,
                            const std::vector<Index>& equalities) {
  Eigen::Map<DenseMatrix> T(T_, rows_, n_);
  const Triangle P = copy_symmetric_part(data.P_rows(), T.topRows(n_));
  largest_P_ = P.largest;
  symmetric_ = P.symmetric;
  if (p_ == data.p) {
    transpose(data.A_rows(), T.middleRows(n_, p_));
  } else {
    for (Index i = 0; i < p_; ++i)
      T.row(n_ + i) = data.A_rows().col(equalities[static_cast<std::size_t>(i)]);
  }
  transpose(data.G_rows(), T.middleRows(n_ + p_, data.m));
  Index row = n_ + p_ + data.m;
  T.bottomRows(rows_ - row).setZero();
  for (const Index j : bounded) T(row++, j) = 1;
}

bool ConstraintSpace::sweep() {
  Eigen::Map<DenseMatrix> T(T_, rows_, n_);
  const Vector diagonal = T.topRows(n_).diagonal();
  if (!partial_cholesky(T)) return false;
  smallest_pivot_ = (T.topRows(n_).diagonal().array().square() / diagonal.array()).minCoeff();
  if (!(smallest_pivot_ > nearly_singular)) return false;
  Eigen::Map<DenseMatrix> M(M_, p_ + k_, p_ + k_);
  gram(1, T.bottomRows(p_ + k_), 0, M);  // (AS1)
  lengths_ = M.diagonal().tail(k_).cwiseSqrt();
  return true;
}

bool ConstraintSpace::eliminate_equalities() {
  Eigen::Map<DenseMatrix> M(M_, p_ + k_, p_ + k_);
  if (p_ > 0) {
    const Vector diagonal = M.diagonal().head(p_);
    const DenseMatrix M_EE = M.topLeftCorner(p_, p_);
    auto E = M.leftCols(p_);
    const bool definite = partial_cholesky(E);
    if (!definite || !(E.diagonal().array().square() > follows * diagonal.array()).all()) {
      M.topLeftCorner(p_, p_) = M_EE;
      return false;
    }
    gram(-1, W(), 1, M.bottomRightCorner(k_, k_));  // (AS2)
  }
  symmetrise(M.bottomRightCorner(k_, k_));
  M_I_ = M_ + p_ * (p_ + k_) + p_;
  for (Index i = 0; i < k_; ++i)
    if (!(M(p_ + i, p_ + i) > follows * lengths_[i] * lengths_[i]))
      lengths_[i] = std::numeric_limits<double>::infinity();
  return true;
}

void ConstraintSpace::reduce(Block a, Block c_E, Block t_I) const {
  triangular_solve(Op::None, L(), a);
  multiply(Op::None, Op::None, 1, Y_I(), a, 0, t_I);
  if (p_ == 0) return;
  for (Index i = 0; i < p_; ++i)
    if (const Index row = equalities_[static_cast<std::size_t>(i)]; row != i) c_E.row(i) = c_E.row(row);
  auto c = c_E.topRows(p_);
  multiply(Op::None, Op::None, 1, Y_E(), a, -1, c);
  triangular_solve(Op::None, L_E(), c);
  multiply(Op::None, Op::None, -1, W(), c, 1, t_I);
}

void ConstraintSpace::expand(Block w, Block t_E, const ConstBlock& v_I) const {
  multiply(Op::Transpose, Op::None, -1, Y_I(), v_I, 1, w);
  if (p_ > 0) {
    auto t = t_E.topRows(p_);
    multiply(Op::Transpose, Op::None, -1, W(), v_I, 1, t);
    triangular_solve(Op::Transpose, L_E(), t);
    multiply(Op::Transpose, Op::None, -1, Y_E(), t, 1, w);
  }
  triangular_solve(Op::Transpose, L(), w);
  Index place = p_;
  for (Index row = t_E.rows() - 1; row >= 0 && place < t_E.rows(); --row) {
    const bool kept = place > 0 && equalities_[static_cast<std::size_t>(place - 1)] == row;
    if (kept) {
      --place;
      if (place != row) t_E.row(row) = t_E.row(place);
    } else {
      t_E.row(row).setZero();
    }
  }
}

}  // namespace altdiff::detail
