#pragma once

#include "derivatives/rounds.hpp"

namespace altdiff::detail {

/// Whether a row holds with equality while its multiplier is zero, up to rounding (W2).
template <Matrix M>
[[nodiscard]] bool has_weak_rows(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& S);

/// What stands for the active set where the derivative is a matter of convention. The multipliers of `v`
/// become the least ones (W3); a row is strictly active if its multiplier then is positive; a weak row that
/// the others do not imply enters with its weight on the central path (W4). `system` is left factorised for
/// the new S. Where this does not work out numerically, everything stays as it was.
template <Matrix M>
void settle_degenerate(const QuadraticProgram<M>& qp, Point& v, ActiveSet& S, AugmentedSystem<M>& system);

extern template bool has_weak_rows(const QuadraticProgram<DenseMatrix>&, const Point&, const ActiveSet&);
extern template bool has_weak_rows(const QuadraticProgram<SparseMatrix>&, const Point&, const ActiveSet&);
extern template void settle_degenerate(const QuadraticProgram<SparseMatrix>&, Point&, ActiveSet&,
                                       SparseSystem&);

}  // namespace altdiff::detail
