#pragma once

#include "derivatives/null_space.hpp"

namespace altdiff::detail {

/// add_central_weights (W4) for a program that NullSpace serves. M = G_W J G_W' is formed, and t is the
/// minimiser of 1/2 t'M t - sum log t, by damped Newton steps. Rows of W that S implies, and those that a
/// flat direction leaves without cost, are dropped.
void add_barrier_weights(const QuadraticProgram<SparseMatrix>& qp, const RowLengths& lengths,
                         const ActiveSet& W, ActiveSet& S);

}  // namespace altdiff::detail
