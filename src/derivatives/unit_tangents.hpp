#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// The unit tangents of a vector field, one column for each of its entries, as right-hand sides of (A2).
/// `side`: the active bounds, +1 at ub, -1 at lb. A matrix field throws.
[[nodiscard]] PointBlock unit_tangents(Index n, Index m, Index p, Field field, const Vector& side);

}  // namespace altdiff::detail
