#pragma once

#include <memory>
#include <optional>

#include "derivatives/flat_directions.hpp"
#include "derivatives/rounds.hpp"
#include "derivatives/row_projection.hpp"
#include "problem/scaling.hpp"

namespace altdiff::detail {

/// The program at its solution: the active set, and the factor that the forward pass owns. Every derivative
/// is one solve with it. Immutable, so that several threads may differentiate one solution.
class Linearisation {
 public:
  Linearisation() = default;
  Linearisation(const Linearisation&) = delete;
  Linearisation& operator=(const Linearisation&) = delete;
  virtual ~Linearisation() = default;

  /// Solves (A2) in the user's units: a linear and symmetric map. Where no solution exists (x is not unique,
  /// or rows contradict each other), the part of the right-hand side that cannot be met is taken off it: a
  /// pseudo-inverse.
  [[nodiscard]] virtual PointBlock solve(const PointBlock& right_side) const = 0;

  /// How many rounds (A3) `solve` needs; 0 where it is no matter of rounds.
  [[nodiscard]] virtual int rounds() const = 0;

  /// True if (A2) has a solution for a generic right-hand side, so that x is unique (A4).
  [[nodiscard]] virtual bool regular() const = 0;

  /// True if the active rows are linearly independent, so that the multipliers are unique (A5).
  [[nodiscard]] virtual bool independent() const = 0;

  /// The active set, over the rows of the user's G.
  [[nodiscard]] virtual ActiveSet active() const = 0;

  /// Where x is the least of many: the u of (L3), in the user's units. Null where x is unique, or was not
  /// chosen so.
  [[nodiscard]] virtual const Point* turn() const { return nullptr; }

  /// The part of each column along which x could move without cost, in the user's units (L2); only where
  /// there is a turn.
  [[nodiscard]] virtual DenseMatrix flat_part(const DenseMatrix& columns) const { return 0 * columns; }
};

/// What is known of an active set before a linearisation is made on it; what is not is found out.
struct KnownRows {
  bool independent = false;  ///< the rows are
  bool several_x = false;    ///< x is not unique, whatever the rows of the set say
};

/// Solves by alternating rounds, with whatever penalties its factor has.
template <Matrix M>
class RoundsLinearisation final : public Linearisation {
 public:
  RoundsLinearisation(std::shared_ptr<const ScaledProgram<M>> program, AugmentedSystem<M> system,
                      ActiveSet set, RoundLimits limits, const KnownRows& known = {});

  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const override;
  [[nodiscard]] int rounds() const override { return count_.rounds; }
  [[nodiscard]] bool regular() const override { return regular_; }
  [[nodiscard]] bool independent() const override { return independent_; }
  [[nodiscard]] ActiveSet active() const override;
  [[nodiscard]] const Point* turn() const override { return turn_ ? &*turn_ : nullptr; }
  [[nodiscard]] DenseMatrix flat_part(const DenseMatrix& columns) const override;

  /// The same in scaled units, of right-hand sides in scaled units.
  [[nodiscard]] PointBlock solve_scaled(PointBlock b) const;
  /// The columns without what is along directions that cost nothing, in scaled units.
  void remove_flat_part(DenseMatrix& columns) const;
  /// x is the least one: keeps u for its derivative (L3).
  void keep_turn(const Vector& x);
  [[nodiscard]] const ActiveSet& set() const { return set_; }
  /// For the next linearisation; this one is of no further use.
  [[nodiscard]] AugmentedSystem<M> release_system() { return std::move(system_); }

 private:
  void count_rounds();

  std::shared_ptr<const ScaledProgram<M>> program_;
  AugmentedSystem<M> system_;
  ActiveSet set_;
  RoundLimits limits_;
  bool regular_, independent_;
  RoundCount count_{};
  std::optional<FlatDirections<M>> flat_{};  // where (A2) leaves x free
  std::optional<RowProjection<M>> rows_{};   // where rows are dependent
  std::optional<Point> turn_{};
};

extern template class RoundsLinearisation<DenseMatrix>;
extern template class RoundsLinearisation<SparseMatrix>;

}  // namespace altdiff::detail
