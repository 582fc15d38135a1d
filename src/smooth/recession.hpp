#pragma once

#include <optional>

#include "engines/active_set/engine.hpp"
#include "objectives/terms.hpp"

namespace altdiff::detail {

/// A direction along which f falls for ever and the constraints hold, so that no x attains its infimum.
struct Ray {
  Vector d{};
  bool endless = false;  ///< f has no infimum
};

/// Looks for a ray, checks what it finds, and returns it if it is one:
///
///     minimise f_inf(d) - strictness(d)  over  f_inf(d) <= 0,  A d = 0,  G d <= 0,  |d| <= 1          (N10)
///
/// with f_inf(d) = lim f(x + s d) / s, and the strictness of rows that bend along d: they decide where f_inf
/// is zero. `x` tells on which side of their bend rows are.
[[nodiscard]] std::optional<Ray> find_ray(const std::vector<InstanceTerm>& terms, const Instance& instance,
                                          const Vector& x);

}  // namespace altdiff::detail
