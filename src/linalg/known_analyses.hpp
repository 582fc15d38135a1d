#pragma once

#include <memory>

#include "linalg/sparse_system.hpp"

namespace altdiff::detail {

/// The analysis of these patterns: an earlier one where there is one, since the instances of a batch and the
/// steps of a training share their patterns, and to order a matrix takes as long as to factorise it several
/// times. The latest few are kept, at most some 64 MB.
[[nodiscard]] std::shared_ptr<const SparseAnalysis> analysis_of(const SparseMatrix& H, const SparseMatrix& A,
                                                                const SparseMatrix& G);

}  // namespace altdiff::detail
