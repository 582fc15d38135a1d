#pragma once

#include "derivatives/null_space.hpp"

namespace altdiff::detail {

/// settle_degenerate for a program that NullSpace serves: the least multipliers (W3) in the user's units,
/// rows of length one, and weights of weak rows (W4), without rounds.
void settle_by_factors(const QuadraticProgram<SparseMatrix>& qp, const RowLengths& lengths, Point& v,
                       ActiveSet& S);

}  // namespace altdiff::detail
