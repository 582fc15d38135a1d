#pragma once

#include <altdiff/solve.hpp>

namespace altdiff::detail {

/// One program, dense or sparse, by ADMM and the finish: scaled, through the engine, and checked against the
/// user's own numbers. The data are checked already.
template <Matrix M>
[[nodiscard]] Solution<M> solve_alternating(const QuadraticProgram<M>& qp, const Settings& settings,
                                            const Point& initial);

extern template Solution<DenseMatrix> solve_alternating(const QuadraticProgram<DenseMatrix>&, const Settings&,
                                                        const Point&);
extern template Solution<SparseMatrix> solve_alternating(const QuadraticProgram<SparseMatrix>&,
                                                         const Settings&, const Point&);

}  // namespace altdiff::detail
