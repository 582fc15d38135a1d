#pragma once

#include <altdiff/settings.hpp>
#include <altdiff/solution.hpp>

namespace altdiff {

/// Solves (QP). A mistake in the data or the settings throws std::invalid_argument, which names the field;
/// what the numbers did is in the status. `initial` (an earlier solution, say) is where to begin; it never
/// changes the answer beyond tolerance.
template <Matrix M>
[[nodiscard]] Solution<M> solve(const QuadraticProgram<M>& qp, const Settings& settings = {},
                                const Point& initial = {});

extern template Solution<DenseMatrix> solve(const QuadraticProgram<DenseMatrix>&, const Settings&,
                                            const Point&);
extern template Solution<SparseMatrix> solve(const QuadraticProgram<SparseMatrix>&, const Settings&,
                                             const Point&);

}  // namespace altdiff
