#pragma once

#include "engines/active_set/engine.hpp"

namespace altdiff::detail {

/// Whether a constraint might as well be on the other side, with slack and multiplier both next to zero in
/// the user's units. Margins (G1) in constraint space are relative to a minimiser without constraints, which
/// may be far away: by them alone many a program would seem to be on a kink.
[[nodiscard]] bool near_a_kink(const Instance& instance, const PointView& point);

/// Whether derivatives in constraint space would let a part of a gradient through the rows: `active` of them,
/// equalities included, leave x no direction, and u is what rounding leaves of P^-1 x_bar, which is large
/// where P is small beside the rows.
[[nodiscard]] bool leaks_at_vertex(const Instance& instance, Index active);

}  // namespace altdiff::detail
