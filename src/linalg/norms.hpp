#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff::detail {

/// Largest absolute value; NaN if any entry is (a plain maximum would swallow it and report "solved").
template <class Expression>
[[nodiscard]] double norm(const Eigen::DenseBase<Expression>& v) {
  return v.size() == 0 ? 0 : v.derived().array().abs().template maxCoeff<Eigen::PropagateNaN>();
}

// The same of a matrix, of each row, of each column.

[[nodiscard]] double largest_number(const DenseMatrix& X);
[[nodiscard]] double largest_number(const SparseMatrix& X);
[[nodiscard]] Vector row_norms(const DenseMatrix& X);
[[nodiscard]] Vector row_norms(const SparseMatrix& X);
[[nodiscard]] Vector column_norms(const DenseMatrix& X);
[[nodiscard]] Vector column_norms(const SparseMatrix& X);

/// sum_j |X_ij| |v_j| for each row: what rounding in X v is relative to.
[[nodiscard]] Vector absolute_terms(const DenseMatrix& X, const Vector& v);
[[nodiscard]] Vector absolute_terms(const SparseMatrix& X, const Vector& v);
/// terms += sum_i |X_ij| |v_i| for each column, without taking memory.
void add_absolute_transposed_terms(const DenseMatrix& X, const Vector& v, Vector& terms);
void add_absolute_transposed_terms(const SparseMatrix& X, const Vector& v, Vector& terms);

}  // namespace altdiff::detail
