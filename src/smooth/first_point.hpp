#pragma once

#include <altdiff/settings.hpp>

#include "engines/active_set/engine.hpp"
#include "objectives/terms.hpp"

namespace altdiff::detail {

/// A point inside the domain of every term, if possible also within the bounds. Where the domain is that of a
/// map, it is found by a program of its own:
///
///     maximise delta - 1/2 epsilon |x - x_0|^2 over the constraints and t >= delta, delta <= 1 (N7)
///
/// Empty: no point of the domain satisfies the constraints; `proof` may say why.
[[nodiscard]] Vector first_point(const std::vector<InstanceTerm>& terms, const Instance& instance,
                                 const Settings& settings, Point& proof);

/// Whether no point of the domain satisfies the constraints, for where a method did not find one.
[[nodiscard]] bool outside_domain(const std::vector<InstanceTerm>& terms, const Instance& instance,
                                  const Settings& settings, Point& proof);

}  // namespace altdiff::detail
