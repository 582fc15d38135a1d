#include "engines/active_set/constraint_space.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/dense.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr double follows = 1e-12;    // the sine of an angle below which an equality follows from others
constexpr double doubtful = 1e-9;    // a pivot of M_EE, relative to its diagonal, that asks for a closer look
constexpr double unmovable = 2e-14;  // share of a row's squared length that the equalities leave of it
constexpr double nearly_singular = 1e-13;  // of P's pivots, relative to its diagonal

/// Columns that do not follow from the others. An orthogonal factorisation, because the Gram matrix squares
/// the angle between two of them: at 1e-7 it could not tell parallel from not.
std::vector<Index> independent_columns(const DenseMatrix& X) {
  Vector norms = X.colwise().norm();
  for (double& norm : norms) norm = norm > 0 ? norm : 1;
  Eigen::ColPivHouseholderQR<DenseMatrix> qr(X * norms.cwiseInverse().asDiagonal());
  qr.setThreshold(follows);
  const auto& order = qr.colsPermutation().indices();
  std::vector<Index> kept(order.data(), order.data() + qr.rank());
  std::ranges::sort(kept);
  return kept;
}

}  // namespace

ConstraintSpace::ConstraintSpace(const MatricesView& data, const std::vector<Index>& bounded, double* memory,
                                 double* M, int threads)
    : n_(data.n),
      p_(data.p),
      k_(data.m + static_cast<Index>(bounded.size())),
      stride_T_(padded(n_ + p_ + k_)),
      stride_E_(padded(p_ + k_)),
      T_(memory),
      E_(T_ + stride_T_ * n_),
      M_(M),
      lengths_(E_ + stride_E_ * p_) {
  stack(data, bounded);
  if (!sweep(threads)) return;
  if (!eliminate_equalities(doubtful)) {
    if (out_of_time()) return;
    kept_ = independent_columns(data.A_rows());
    p_ = static_cast<Index>(kept_.size());
    stack(data, bounded);
    if (!sweep(threads) || !eliminate_equalities(0)) return;
  }
  usable_ = true;
}

void ConstraintSpace::stack(const MatricesView& data, const std::vector<Index>& bounded) {
  const SymmetricPart P = copy_symmetric_part(data.P, n_, T_, stride_T_);
  largest_P_ = P.largest;
  symmetric_ = P.exact;
  if (kept_.empty()) {
    small_transpose(data.A, n_, n_, p_, T_ + n_, stride_T_);
  } else {
    for (Index i = 0; i < p_; ++i) T().row(n_ + i) = data.A_rows().col(kept_[static_cast<std::size_t>(i)]);
  }
  small_transpose(data.G, n_, n_, data.m, T_ + n_ + p_, stride_T_);
  Index row = n_ + p_ + data.m;
  Columns(T_ + row, stride_T_ - row, n_, Eigen::OuterStride<>(stride_T_)).setZero();  // also the padding
  for (const Index j : bounded) T()(row++, j) = 1;
}

bool ConstraintSpace::sweep(int threads) {
  auto columns = T();
  auto diagonal = scratch();
  for (Index j = 0; j < n_; ++j) diagonal[j] = columns(j, j);
  if (!partial_cholesky(columns, threads)) return false;
  smallest_pivot_ = 1;
  for (Index j = 0; j < n_; ++j)
    smallest_pivot_ = std::min(smallest_pivot_, columns(j, j) * columns(j, j) / diagonal[j]);
  if (!(smallest_pivot_ > nearly_singular)) return false;
  auto M = inequality_columns();
  if (!gram_in_time(1, columns.bottomRows(p_ + k_), 0, equality_columns(), threads) ||  // (AS1)
      !gram_in_time(1, columns.bottomRows(k_), 0, M, threads))
    return false;
  for (Index i = 0; i < k_; ++i) lengths_[i] = std::sqrt(M(i, i));
  return true;
}

bool ConstraintSpace::eliminate_equalities(double smallest) {
  auto M = inequality_columns();
  if (p_ > 0) {
    if (p_ > n_) return false;
    auto E = equality_columns();
    auto diagonal = scratch().head(p_);
    diagonal = E.diagonal();
    if (!partial_cholesky(E, 1)) return false;
    const double pivot = (E.diagonal().array().square() / diagonal.array()).minCoeff();
    if (!(pivot > smallest)) return false;
    equality_pivot_ = pivot;
    if (!gram_in_time(-1, W(), 1, M, 1)) return false;  // (AS2)
  }
  symmetrise(M);
  for (Index i = 0; i < k_; ++i)
    if (!(M(i, i) > unmovable * lengths_[i] * lengths_[i]))
      lengths_[i] = std::numeric_limits<double>::infinity();
  return true;
}

void ConstraintSpace::reduce(Block a, Block c_E, Block t_I) const {
  triangular_solve(Op::None, L(), a);
  multiply(Op::None, Op::None, 1, Y_I(), a, 0, t_I);
  if (p_ == 0) return;
  for (Index i = 0; i < std::ssize(kept_); ++i) c_E.row(i) = c_E.row(kept_[static_cast<std::size_t>(i)]);
  const auto c = c_E.topRows(p_);
  multiply(Op::None, Op::None, 1, Y_E(), a, -1, c);
  triangular_solve(Op::None, L_E(), c);
  multiply(Op::None, Op::None, -1, W(), c, 1, t_I);
}

void ConstraintSpace::expand(Block w, Block t_E, const ConstBlock& v_I) const {
  multiply(Op::Transpose, Op::None, -1, Y_I(), v_I, 1, w);
  if (p_ > 0) {
    const auto t = t_E.topRows(p_);
    multiply(Op::Transpose, Op::None, -1, W(), v_I, 1, t);
    triangular_solve(Op::Transpose, L_E(), t);
    multiply(Op::Transpose, Op::None, -1, Y_E(), t, 1, w);
  }
  triangular_solve(Op::Transpose, L(), w);
  if (p_ == t_E.rows()) return;
  Index place = p_ - 1;
  for (Index row = t_E.rows() - 1; row >= 0; --row) {
    if (place >= 0 && kept_[static_cast<std::size_t>(place)] == row) {
      t_E.row(row) = t_E.row(place--);
    } else {
      t_E.row(row).setZero();
    }
  }
}

}  // namespace altdiff::detail
