#pragma once

#include <altdiff/solve.hpp>
#include <optional>

namespace altdiff::detail {

/// One program, dense or sparse, by the interior point or by ADMM: scaled, through the engine, finished, and
/// checked against the user's own numbers. The data are checked already.
template <Matrix M>
[[nodiscard]] Solution<M> solve_one(const QuadraticProgram<M>& qp, const Settings& settings,
                                    const Point& initial);

/// The finish alone, from a point that another engine found; empty if it does not solve the program.
template <Matrix M>
[[nodiscard]] std::optional<Solution<M>> finish_one(const QuadraticProgram<M>& qp, const Settings& settings,
                                                    const Point& point);

extern template std::optional<Solution<DenseMatrix>> finish_one(const QuadraticProgram<DenseMatrix>&,
                                                                const Settings&, const Point&);
extern template Solution<DenseMatrix> solve_one(const QuadraticProgram<DenseMatrix>&, const Settings&,
                                                const Point&);
extern template Solution<SparseMatrix> solve_one(const QuadraticProgram<SparseMatrix>&, const Settings&,
                                                 const Point&);

}  // namespace altdiff::detail
