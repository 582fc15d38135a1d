#pragma once

#include <altdiff/solution.hpp>

#include "engines/active_set/engine.hpp"
#include "objectives/terms.hpp"

namespace altdiff::detail {

/// Where a search for a point inside the domain ended.
struct FirstPoint {
  Status status = Status::NumericalError;  ///< Solved; PrimalInfeasible: no point of the domain satisfies the
                                           ///< constraints; NumericalError: none but at its end
  Vector x{};
  Point proof{};  ///< may say why there is none
};

/// A point that is inside by the domains and bounds of single variables.
[[nodiscard]] Vector likely_point(const std::vector<InstanceTerm>& terms, const Instance& instance);

/// A point inside the domain of every term, if possible also within the bounds. Where the domain is that of a
/// map, it is the one below.
[[nodiscard]] FirstPoint first_point(const std::vector<InstanceTerm>& terms, const Instance& instance);

/// The point that is furthest inside the domain:
///
///     maximise delta - 1/2 epsilon |x - x_0|^2 over the constraints and t >= delta, delta <= 1 (N7)
[[nodiscard]] FirstPoint widest_point(const std::vector<InstanceTerm>& terms, const Instance& instance);

}  // namespace altdiff::detail
