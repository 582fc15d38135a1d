#pragma once

#include <altdiff/solve.hpp>
#include <vector>

namespace altdiff::detail {

// Sparse instances side by side, each with matrices of its own; the answers do not depend on the number of
// threads.

using SparseProgram = QuadraticProgram<SparseMatrix>;

/// Solves every program; the time limit is that of all. Within a batch BLAS has one thread an instance.
[[nodiscard]] std::vector<Solution<SparseMatrix>> solve_each(
    const std::vector<const SparseProgram*>& programs, const Settings& settings,
    const std::vector<Point>& initial);

/// vjp of every solution.
[[nodiscard]] std::vector<SparseProgram> vjp_each(const std::vector<const SparseProgram*>& programs,
                                                  const std::vector<const Solution<SparseMatrix>*>& solutions,
                                                  const std::vector<Point>& bars, int num_threads);

}  // namespace altdiff::detail
