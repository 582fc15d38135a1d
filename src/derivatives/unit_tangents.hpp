#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// How many entries a vector field has. A matrix field throws.
[[nodiscard]] Index entries_of(Index n, Index m, Index p, Field field);

/// Some unit tangents of a vector field, one column for each of its entries from `first` on, as right-hand
/// sides of (A2). `side`: the active bounds, +1 at ub, -1 at lb.
[[nodiscard]] PointBlock unit_tangents(Index n, Index m, Index p, Field field, const Vector& side,
                                       Index first, Index count);

/// How many columns of a Jacobian are solved for in one piece: few enough for interrupts to be answered
/// between two of them. By sizes alone, so that answers depend on nothing else.
[[nodiscard]] Index columns_together(Index n, Index m, Index p);

}  // namespace altdiff::detail
