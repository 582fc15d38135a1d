#pragma once

#include <optional>

#include "derivatives/rounds.hpp"

namespace altdiff::detail {

/// Of all multipliers at v.x that are zero outside `rows` and have the right signs, those of least norm
/// (W3), in scaled units. Empty if the search does not end, or its result does not balance the gradient.
/// The factor in `system` is lost. `tiny`: a multiplier below it is zero.
template <Matrix M>
[[nodiscard]] std::optional<Point> least_multipliers(const QuadraticProgram<M>& qp, const Point& v,
                                                     const ActiveSet& rows, double tiny,
                                                     AugmentedSystem<M>& system);

extern template std::optional<Point> least_multipliers(const QuadraticProgram<SparseMatrix>&, const Point&,
                                                       const ActiveSet&, double, SparseSystem&);

}  // namespace altdiff::detail
