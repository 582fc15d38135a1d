#pragma once

#include <altdiff/matrix.hpp>
#include <vector>

namespace altdiff::detail {

/// Indices of the rows of G x <= h that exist.
[[nodiscard]] std::vector<Index> finite_rows(const Vector& h);

[[nodiscard]] DenseMatrix pick_rows(const DenseMatrix& G, const std::vector<Index>& rows);
[[nodiscard]] SparseMatrix pick_rows(const SparseMatrix& G, const std::vector<Index>& rows);

}  // namespace altdiff::detail
