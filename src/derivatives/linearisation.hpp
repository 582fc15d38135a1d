#pragma once

#include <memory>
#include <mutex>
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

/// A set over the rows of the user's G.
template <Matrix M>
[[nodiscard]] ActiveSet in_user_rows(const ScaledProgram<M>& program, const ActiveSet& set);

/// What is known of an active set before a linearisation is made on it; what is not is found out.
struct KnownRows {
  bool independent = false;  ///< the rows are
  bool several_x = false;    ///< x is not unique, whatever the rows of the set say
  int rounds = 0;            ///< that solve (A2), which is regular; zero: it may not be
};

/// Solves by alternating rounds, with whatever penalties its factor has.
template <Matrix M>
class RoundsLinearisation final : public Linearisation {
 public:
  RoundsLinearisation(std::shared_ptr<const ScaledProgram<M>> program, AugmentedSystem<M> system,
                      ActiveSet set, RoundLimits limits, const KnownRows& known = {});

  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const override;
  [[nodiscard]] int rounds() const override { return prepared().count.rounds; }
  [[nodiscard]] bool regular() const override { return regular_; }
  [[nodiscard]] bool independent() const override { return independent_; }
  [[nodiscard]] ActiveSet active() const override { return in_user_rows(*program_, set_); }
  [[nodiscard]] DenseMatrix flat_part(const DenseMatrix& columns) const override;
  /// Whether what is flat can be told from what is not.
  [[nodiscard]] bool usable() const { return !prepared().flat || prepared().flat->usable(); }

 private:
  /// What solves need beside the factor.
  struct Projections {
    std::optional<FlatDirections<M>> flat{};  // where (A2) leaves x free
    std::optional<RowProjection<M>> rows{};   // where rows are dependent
    RoundCount count{};
  };
  /// Made when it is first asked for: many solutions are never differentiated.
  const Projections& prepared() const;
  [[nodiscard]] RoundCount count_rounds() const;
  [[nodiscard]] bool at_vertex() const;
  static void remove_flat_part(const Projections& by, DenseMatrix& columns);

  std::shared_ptr<const ScaledProgram<M>> program_;
  AugmentedSystem<M> system_;
  ActiveSet set_;
  RoundLimits limits_;
  int known_rounds_;  // zero: to be counted
  bool flat_, regular_, independent_;
  mutable Projections projections_{};
  mutable std::once_flag once_{};
};

extern template class RoundsLinearisation<DenseMatrix>;
extern template class RoundsLinearisation<SparseMatrix>;

}  // namespace altdiff::detail
