#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff::detail {

// Largest absolute values: of a matrix (NaN if it holds one), of each row, of each column.

[[nodiscard]] double largest_number(const DenseMatrix& X);
[[nodiscard]] double largest_number(const SparseMatrix& X);
[[nodiscard]] Vector row_norms(const DenseMatrix& X);
[[nodiscard]] Vector row_norms(const SparseMatrix& X);
[[nodiscard]] Vector column_norms(const DenseMatrix& X);
[[nodiscard]] Vector column_norms(const SparseMatrix& X);

}  // namespace altdiff::detail
