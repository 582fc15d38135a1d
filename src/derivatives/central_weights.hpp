#pragma once

#include "derivatives/rounds.hpp"

namespace altdiff::detail {

/// Gives the weak rows W their weight on the central path (W4) and adds them to S. Rows that only hold
/// together, such as x <= 0 and x >= 0, become strict; rows that a flat direction leaves are dropped. The
/// factor in `system` is lost. False if a factorisation failed.
template <Matrix M>
[[nodiscard]] bool add_central_weights(const QuadraticProgram<M>& qp, ActiveSet W, ActiveSet& S,
                                       AugmentedSystem<M>& system);

extern template bool add_central_weights(const QuadraticProgram<SparseMatrix>&, ActiveSet, ActiveSet&,
                                         SparseSystem&);

}  // namespace altdiff::detail
