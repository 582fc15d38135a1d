#pragma once

#include <altdiff/matrix.hpp>
#include <cmath>
#include <vector>

namespace altdiff::detail {

/// No x gets near such a limit, but sums with it overflow.
[[nodiscard]] inline bool never_binds(double limit) { return std::abs(limit) >= 1e100; }

/// Indices of the rows of G x <= h that exist.
[[nodiscard]] std::vector<Index> finite_rows(const Vector& h);

[[nodiscard]] DenseMatrix pick_rows(const DenseMatrix& G, const std::vector<Index>& rows);
[[nodiscard]] SparseMatrix pick_rows(const SparseMatrix& G, const std::vector<Index>& rows);

/// One below the other.
[[nodiscard]] SparseMatrix stacked(const std::vector<SparseMatrix>& blocks);

}  // namespace altdiff::detail
