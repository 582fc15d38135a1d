#pragma once

#include "engines/active_set/dual_program.hpp"

namespace altdiff::detail {

/// The dual active-set method of Goldfarb and Idnani: one row enters at a time, and rows whose multiplier it
/// would turn leave. The dual objective rises with every row that enters, so no set comes twice and it ends;
/// the set stays independent, so duplicate rows do no harm.
class GoldfarbIdnani {
 public:
  /// `k`: inequalities and bounds; `most`: how many of them can be independent. A row of which the set leaves
  /// less than the share `dependent` of its squared length counts as dependent on it.
  GoldfarbIdnani(Index k, Index most, double dependent);

  /// Begins at what is dual feasible of the set in `side`. Infeasible leaves the proof in `rows` and
  /// `lambda`; Stalled may also mean that the time is over.
  void run(const DualProgram& program, DualState& state);

  /// Goes on from a set with the given multipliers (of all rows, of the right signs) and values of the rows,
  /// which may be more accurate than those that follow from the program's t. Leaves lambda and the factor of
  /// the new set.
  void resume(const DualProgram& program, DualState& state, const double* lambda, const double* v);

 private:
  using Factor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  enum class Step : std::uint8_t { Entered, Ignored, Infeasible, OutOfTime };

  [[nodiscard]] Index count() const { return static_cast<Index>(rows_.size()); }
  /// Asked before a step, or a row of a first set.
  [[nodiscard]] bool in_time(const DualProgram& program) const;
  void begin(const DualProgram& program, DualState& state);
  void take_rows(const DualProgram& program, DualState& state, double dependent);
  [[nodiscard]] static int most_changes(const DualProgram& program);
  void take_dual_feasible_part(const DualProgram& program, DualState& state);
  void solve_multipliers(const DualProgram& program, const DualState& state);
  [[nodiscard]] bool pivot_until_feasible(const DualProgram& program, DualState& state, int most);
  [[nodiscard]] Index most_violated(const DualProgram& program, const DualState& state) const;
  [[nodiscard]] Step enter(const DualProgram& program, DualState& state, Index row);
  /// direction r = M_SS^-1 M_S,row; returns what is left of the row's length: M_rr - M_rS r
  [[nodiscard]] double find_direction(const DualProgram& program, Index row);
  /// The longest step before a multiplier turns, and whose it is (-1: none), as a row of this length enters.
  [[nodiscard]] std::pair<double, Index> blocking(const DualProgram& program, const DualState& state,
                                                  double sign, double length) const;
  void move(const DualProgram& program, Index row, double step);
  [[nodiscard]] bool append(const DualProgram& program, Index row, double left, double dependent);
  void drop(DualState& state, Index place);
  void keep_proof(const DualProgram& program, DualState& state, Index row, double sign) const;
  [[nodiscard]] bool confirm(const DualProgram& program, DualState& state);

  Index most_;
  double dependent_;
  Factor R_;                 // M_SS = R R', lower triangle
  std::vector<Index> rows_;  // S, in the order of R
  Vector lambda_, l_, r_, v_;
  std::vector<char> ignored_;  // rows that only rounding violates
};

}  // namespace altdiff::detail
