#pragma once

#include <memory>

#include "engines/active_set/engine.hpp"
#include "linalg/memory.hpp"

namespace altdiff::detail {

/// A constraint space with memory of its own.
struct OwnSpace {
  OwnSpace(const MatricesView& data, const std::vector<Index>& bounded)
      : OwnSpace(data, bounded, data.m + static_cast<Index>(bounded.size())) {}
  /// M_I stands in the caller's memory, which outlives the search for the set.
  OwnSpace(const MatricesView& data, const std::vector<Index>& bounded, double* M_I, int threads)
      : memory(ConstraintSpace::memory(data.n, data.p, data.m + static_cast<Index>(bounded.size()))),
        space(data, bounded, memory.data(), M_I, threads) {}

  Memory memory, M{};
  ConstraintSpace space;

 private:
  OwnSpace(const MatricesView& data, const std::vector<Index>& bounded, Index k)
      : memory(ConstraintSpace::memory(data.n, data.p, k)),
        M(ConstraintSpace::memory_of_M(k)),
        space(data, bounded, memory.data(), M.data()) {}
};

/// What the proximal method found.
struct Proximal {
  std::shared_ptr<const OwnSpace> own{};  // of P + R
  DualState state{};
  PointBlock point{};
  Residuals residuals{};  // from the user's data
  double objective = 0;
  double margin = 0;

  [[nodiscard]] bool found() const { return own != nullptr; }
  [[nodiscard]] Point as_point() const {
    return {.x = point.x, .y = point.y, .z = point.z, .z_box = point.z_box};
  }
};

/// The active set where P is too close to singular, or rows too close to parallel, for it: P + R with a small
/// diagonal R is not, and
///
///     x+ = argmin f(x) + 1/2 (x - x_k)'R (x - x_k)   over the same constraints                        (AS7)
///
/// has the solutions of the program as its fixed points. Returns the best round before the time is over.
[[nodiscard]] Proximal solve_proximal(const Instance& instance, const std::vector<Index>& bounded);

}  // namespace altdiff::detail
