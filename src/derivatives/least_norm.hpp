#pragma once

#include <memory>
#include <optional>

#include "derivatives/finish.hpp"
#include "problem/solve_well_posed.hpp"

namespace altdiff::detail {

/// Where x is not unique, all solutions have the multipliers of one of them, and P x and the rows with
/// positive multipliers in common. Among them
///
///     x = argmin 1/2 |x|^2   s.t.  P x = P x_0,  A x = b,  G_S x = h_S,  I_S x = bounds_S,  and all others
///     (L1)
///
/// in the user's units is the one that is returned, whatever engine found the first. `found` is any solution,
/// finished; `program` has the user's columns (S4). Rows that hold the least x back become strict ones of the
/// set; where they are many, `solve` finds them, another engine's way to solve a program that has a solution.
/// Empty if no set of them was found.
template <Matrix M>
[[nodiscard]] std::optional<Finished<M>> least_norm(const std::shared_ptr<const ScaledProgram<M>>& program,
                                                    const Finished<M>& found, double gradient_tolerance,
                                                    const SolveWellPosed& solve);

extern template std::optional<Finished<SparseMatrix>> least_norm(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Finished<SparseMatrix>&, double,
    const SolveWellPosed&);

}  // namespace altdiff::detail
