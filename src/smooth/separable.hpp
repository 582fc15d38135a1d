#pragma once

#include <optional>

#include "batch/linearisation.hpp"
#include "engines/dual_newton.hpp"
#include "smooth/evaluator.hpp"

namespace altdiff::detail {

/// Instances of a batch that DualNewton has solved.
class SeparableSolutions {
 public:
  SeparableSolutions(Index size, const Settings& settings);

  /// Instance i; several at a time, each with an engine of its own. `derivatives`: they are wanted.
  void solve(Index i, const SeparableProgram& program, const VectorView& y, const VectorView& z,
             bool derivatives, DualNewton& engine);

  [[nodiscard]] bool has(Index i) const { return solved_[static_cast<std::size_t>(i)].has_value(); }

  /// What was solved, with its derivatives, to its place in the batch.
  void write(BatchSolution& solution, BatchLinearisation& linearisation) const;

 private:
  struct Solved {
    Point point;
    double objective = 0, margin = 0;
    Residuals residuals{};
    int steps = 0;
    bool degenerate = false, unique = true;
    std::shared_ptr<const Linearisation> linearisation{};
  };

  void settle(const Instance& instance, DualNewton& engine, Solved& solved) const;
  void take_multipliers(const Instance& instance, const Point& finished, Solved& solved) const;

  const Settings& settings_;
  std::vector<std::optional<Solved>> solved_;
};

/// A batch of which nothing is solved yet.
[[nodiscard]] BatchSolution unsolved(const BatchProgram& sizes);

/// The instances of a batch whose f is a linear function and one sum of functions of single variables.
class SeparableBatch {
 public:
  SeparableBatch(const SmoothProgram& program, const Evaluator& evaluator, const Settings& settings);

  /// Solves what it can of `instances`; returns the others.
  [[nodiscard]] std::vector<Index> run(const std::vector<Index>& instances, const PointBlock& initial);

  [[nodiscard]] bool has(Index i) const { return solutions_.has(i); }

  void write(BatchSolution& solution, BatchLinearisation& linearisation) const {
    solutions_.write(solution, linearisation);
  }

 private:
  [[nodiscard]] bool serves(Index i) const;
  [[nodiscard]] SeparableProgram program_of_instance(Index i) const;
  void solve(Index i, const PointBlock& initial, DualNewton& engine);

  const SmoothProgram& program_;
  const Evaluator& evaluator_;
  const Settings& settings_;
  std::size_t term_ = 0;  // the one that is not linear
  bool separable_ = false;
  SeparableSolutions solutions_;
};

}  // namespace altdiff::detail
