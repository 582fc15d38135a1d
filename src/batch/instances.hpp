#pragma once

#include <altdiff/solve.hpp>
#include <vector>

namespace altdiff::detail {

// Instances side by side, each with matrices of its own; the answers do not depend on the number of threads.

/// Solves every program. Within a batch BLAS has one thread an instance.
template <Matrix M>
[[nodiscard]] std::vector<Solution<M>> solve_each(const std::vector<const QuadraticProgram<M>*>& programs,
                                                  const Settings& settings,
                                                  const std::vector<Point>& initial);

/// vjp of every solution.
template <Matrix M>
[[nodiscard]] std::vector<QuadraticProgram<M>> vjp_each(
    const std::vector<const QuadraticProgram<M>*>& programs, const std::vector<const Solution<M>*>& solutions,
    const std::vector<Point>& bars, int num_threads);

extern template std::vector<Solution<DenseMatrix>> solve_each(
    const std::vector<const QuadraticProgram<DenseMatrix>*>&, const Settings&, const std::vector<Point>&);
extern template std::vector<Solution<SparseMatrix>> solve_each(
    const std::vector<const QuadraticProgram<SparseMatrix>*>&, const Settings&, const std::vector<Point>&);
extern template std::vector<QuadraticProgram<DenseMatrix>> vjp_each(
    const std::vector<const QuadraticProgram<DenseMatrix>*>&,
    const std::vector<const Solution<DenseMatrix>*>&, const std::vector<Point>&, int);
extern template std::vector<QuadraticProgram<SparseMatrix>> vjp_each(
    const std::vector<const QuadraticProgram<SparseMatrix>*>&,
    const std::vector<const Solution<SparseMatrix>*>&, const std::vector<Point>&, int);

}  // namespace altdiff::detail
