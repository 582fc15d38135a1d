#pragma once

#include <altdiff/solution.hpp>
#include <string>

#include "derivatives/linearisation.hpp"
#include "problem/checks.hpp"

namespace altdiff::detail {

/// The factor that a solution owns; a solution without a point has none, and no derivative.
template <Matrix M>
[[nodiscard]] const Linearisation& linearisation_of(const Solution<M>& solution) {
  require(solution.linearisation != nullptr,
          "the solution has no derivative: its status is " + std::string(name(solution.status)));
  return *solution.linearisation;
}

}  // namespace altdiff::detail
