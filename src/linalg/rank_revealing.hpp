#pragma once

#include <Eigen/QR>
#include <altdiff/matrix.hpp>

namespace altdiff::detail {

/// X = Q [R 0; 0 0] Z', a complete orthogonal decomposition with pivoting: rank, pseudo-inverse, and what the
/// columns of X do not span.
class RankRevealing {
 public:
  /// A pivot below `tolerance`, relative to the largest, is zero.
  RankRevealing(const DenseMatrix& X, double tolerance);

  [[nodiscard]] Index rank() const { return rank_; }
  [[nodiscard]] DenseMatrix pseudo_inverse() const;
  /// The shortest v that is closest to X v = b.
  [[nodiscard]] Vector solve(const Vector& b) const;
  /// An orthonormal basis of the complement of the span of the columns.
  [[nodiscard]] DenseMatrix complement() const;

 private:
  Eigen::CompleteOrthogonalDecomposition<DenseMatrix> factors_;
  Index rows_, columns_, rank_ = 0;
};

}  // namespace altdiff::detail
