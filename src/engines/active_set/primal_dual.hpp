#pragma once

#include <span>

#include "engines/active_set/dual_program.hpp"
#include "linalg/lanes.hpp"

namespace altdiff::detail {

/// Primal-dual active set: solve on the set, then flip every row with a wrong sign at once. A handful of
/// changes where it converges; but it may cycle, so an instance whose wrong signs stop getting fewer is left
/// Stalled, for another method to end. Four instances at a time share the small factorisations.
class PrimalDual {
 public:
  static constexpr int patience = 3;               ///< changes without fewer wrong signs
  static constexpr double smallest_pivot = 1e-12;  ///< of M_SS, relative to its diagonal

  /// `k`: inequalities and bounds; `largest`: a set that has more of them never serves.
  PrimalDual(Index k, Index largest);

  /// Every state begins at the set in its `side`; `most`: how many rows can be independent. When the time is
  /// over, those that are not solved yet are left Stalled.
  void run(std::span<const DualProgram> programs, std::span<DualState> states, Index most);

 private:
  struct Lane {
    const DualProgram* program = nullptr;
    DualState* state = nullptr;
    Index slot = -1;  // in cholesky_, if it holds the factor
    int fewest_wrong = 0;
    int idle = 0;
  };
  [[nodiscard]] Lane entered(const DualProgram& program, DualState& state) const;
  /// Multiplications of the next change of every set.
  [[nodiscard]] static double work(const std::vector<Lane>& running);
  /// Solves on each set; a lane that cannot be is removed.
  void solve(std::vector<Lane>& running);
  void solve_together(std::vector<Lane>& running);
  void gather(const Lane& lane, Index slot, Index size);
  /// Flips wrong signs; true if the lane is done, for good or ill.
  [[nodiscard]] bool settle(Lane& lane);
  [[nodiscard]] int flip_wrong_signs(Lane& lane);
  void keep_factor(const Lane& lane);

  Index most_ = 0;
  LaneCholesky cholesky_;
  std::vector<double> v_;
  std::vector<Lane> running_;
};

}  // namespace altdiff::detail
