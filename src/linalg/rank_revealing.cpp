#include "linalg/rank_revealing.hpp"

namespace altdiff::detail {

RankRevealing::RankRevealing(const DenseMatrix& X, double tolerance) : rows_(X.rows()), columns_(X.cols()) {
  if (X.size() == 0) return;
  factors_.setThreshold(tolerance);
  factors_.compute(X);
  rank_ = factors_.rank();
}

DenseMatrix RankRevealing::pseudo_inverse() const {
  if (rank_ == 0) return DenseMatrix::Zero(columns_, rows_);
  return factors_.pseudoInverse();
}

Vector RankRevealing::solve(const Vector& b) const {
  if (rank_ == 0) return Vector::Zero(columns_);
  return factors_.solve(b);
}

DenseMatrix RankRevealing::complement() const {
  if (rank_ == 0) return DenseMatrix::Identity(rows_, rows_);
  const DenseMatrix Q = factors_.householderQ();
  return Q.rightCols(rows_ - rank_);
}

}  // namespace altdiff::detail
