#pragma once

#include "batch/linearisation.hpp"
#include "engines/active_set/engine.hpp"
#include "linalg/memory.hpp"
#include "linalg/spares.hpp"

namespace altdiff::detail {

/// What the last quadratic program of an instance says beside its solution.
struct AtSolution {
  Linearised linearised{};
  double margin = 0;  // (G1)
};

/// The quadratic programs of Newton's steps, of one instance after another, by their active set alone: where
/// that does not serve, somebody else must solve them.
class QuickStep {
 public:
  /// `bounded`: the variables that have a bound in any instance.
  QuickStep(Index n, Index m, Index p, const std::vector<Index>& bounded);
  /// One for programs of these sizes.
  static Spare<QuickStep> of_size(Index n, Index m, Index p, const std::vector<Index>& bounded);
  QuickStep(const QuickStep&) = delete;
  QuickStep& operator=(const QuickStep&) = delete;
  QuickStep(QuickStep&&) = delete;
  QuickStep& operator=(QuickStep&&) = delete;
  ~QuickStep() = default;

  /// Far from the end: nobody looks at residuals, because (N3) judges the step. Begins at the set of these
  /// multipliers. Takes no memory where the set is found by its signs.
  [[nodiscard]] bool solve(const Instance& instance, const VectorView& z, const VectorView& z_box,
                           int threads);
  /// A step that may be the last, with residuals below `tolerance`. False also at a degenerate solution,
  /// whose derivatives are a matter of convention.
  [[nodiscard]] bool solve_exactly(const Instance& instance, const VectorView& z, const VectorView& z_box,
                                   double tolerance, int threads, AtSolution& found);

  [[nodiscard]] const PointBlock& point() const { return engine_.point; }
  [[nodiscard]] Index numbers() const;  ///< in its memory

 private:
  void begin(const Instance& instance, const ConstraintSpace& space, const VectorView& z,
             const VectorView& z_box);

  std::vector<Index> bounded_;
  Memory memory_, M_;
  ConstraintSpace space_{};
  Instance instance_;
  DualState state_{};
  ActiveSetEngine engine_;
};

}  // namespace altdiff::detail
