#pragma once

#include <memory>

#include "derivatives/rounds.hpp"
#include "problem/scaling.hpp"

namespace altdiff::detail {

/// The program at its solution: the active set, and the factor that the forward pass owns. Every derivative
/// is one solve with it. Immutable, so that several threads may differentiate one solution.
template <Matrix M>
class Linearisation {
 public:
  Linearisation() = default;
  Linearisation(const Linearisation&) = delete;
  Linearisation& operator=(const Linearisation&) = delete;
  virtual ~Linearisation() = default;

  /// Solves (A2) in the user's units. Where no solution exists (x is not unique), the part of the right-hand
  /// side that cannot be met is taken off it: the answer is finite, a pseudo-inverse.
  [[nodiscard]] virtual PointBlock solve(const PointBlock& right_side) const = 0;

  /// How many rounds (A3) `solve` needs for this right-hand side; 0 where it is no matter of rounds.
  [[nodiscard]] virtual int rounds(const PointBlock& right_side) const = 0;

  /// True if (A2) has a solution for a generic right-hand side, so that x is unique (A4).
  [[nodiscard]] virtual bool regular() const = 0;

  /// True if the active rows are linearly independent, so that the multipliers are unique (A5).
  [[nodiscard]] virtual bool independent() const = 0;

  /// The active set, over the rows of the user's G.
  [[nodiscard]] virtual ActiveSet active() const = 0;
};

/// Solves by alternating rounds, with whatever penalties its factor has.
template <Matrix M>
class RoundsLinearisation final : public Linearisation<M> {
 public:
  /// `known_independent`: the active rows are known to be.
  RoundsLinearisation(std::shared_ptr<const ScaledProgram<M>> program, AugmentedSystem<M> system,
                      ActiveSet set, RoundLimits limits, bool known_independent = false);

  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const override;
  [[nodiscard]] int rounds(const PointBlock& right_side) const override;
  [[nodiscard]] bool regular() const override { return regular_; }
  [[nodiscard]] bool independent() const override { return independent_; }
  [[nodiscard]] ActiveSet active() const override;

 private:
  struct Counted {
    PointBlock t;  // in scaled units
    int rounds = 0;
  };
  [[nodiscard]] Counted solve_counted(const PointBlock& right_side) const;

  std::shared_ptr<const ScaledProgram<M>> program_;
  AugmentedSystem<M> system_;
  ActiveSet set_;
  RoundLimits limits_;
  bool regular_, independent_;
};

extern template class RoundsLinearisation<DenseMatrix>;
extern template class RoundsLinearisation<SparseMatrix>;

}  // namespace altdiff::detail
