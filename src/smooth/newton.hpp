#pragma once

#include <memory>
#include <optional>

#include "engines/active_set/engine.hpp"
#include "engines/dual_newton.hpp"
#include "problem/deadline.hpp"
#include "problem/residuals.hpp"
#include "smooth/equivalent.hpp"
#include "smooth/evaluator.hpp"
#include "smooth/quick_step.hpp"

namespace altdiff::detail {

/// Newton's method for (N1), all instances side by side. A step solves the quadratic program of (N2) at the
/// iterate, is cut to stay inside the domain of f, and then until the merit function falls enough:
///
///     d = argmin of (N2) - x,   merit = f + nu (|A x - b|_1 + |(G x - h)+|_1 + |bounds|_1)             (N3)
///
/// Every instance is a small machine that asks for f at its trial point and is told; those that wait are
/// answered together.
class Newton {
 public:
  Newton(const SmoothProgram& program, const Settings& settings, const PointBlock& initial,
         std::shared_ptr<EquivalentProgram> equivalent, Evaluator& evaluator);

  /// Runs the instances in `wanted` from the columns of `start`; sets everything public.
  void run(const std::vector<Index>& wanted, const DenseMatrix& start);

  PointBlock point;  ///< the last iterate; where there is no solution, the proof of that
  std::vector<Status> status;
  std::vector<std::int64_t> steps;
  Vector value;
  std::vector<Residuals> residuals;
  /// Where all Hessians are diagonal: the quadratic programs at the solutions, with their derivatives, become
  /// `last`. False if that does not serve.
  [[nodiscard]] bool differentiate_diagonally();

  /// The instance's quadratic program will be another than that of its last step.
  void forget(Index i);

  /// f falls along the ray for ever.
  void declare_endless(Index i, const Vector& ray, bool to_infinity);

  /// The same where the quadratic programs at the solutions are solved by their active sets: all that was
  /// found, with margins and derivatives. None if one of them is not.
  [[nodiscard]] std::optional<BatchSolution> linearise();

  BatchSolution last{};                 ///< of the quadratic programs of the last careful steps,
  std::vector<Index> last_instances{};  ///< of these instances

 private:
  enum class State : std::uint8_t { Done, First, Trial, Stepping };
  struct Progress {
    State state = State::Done;
    double value = 0, violation = 0;  // f and the constraints at x
    double nu = 0, slope = 0, noise = 0;
    double rounding = 0;          // what it may do to the violation
    double length = 1;            // of the step that is tried
    double sigma = 0;             // on the diagonal of the Hessian where the quadratic program has no end
    double error = 0, best = 0;   // residual at x, and the smallest so far
    double change = 0;            // of the Hessian by the last step
    double largest_gradient = 0;  // so far
    bool descended = true;        // the last step was clearly downhill
    int idle = 0, halvings = 0, leans = 0;
    bool doubtful = false;  // whether there is a minimum
    bool careful = false;   // quick steps do not serve, or no more
  };

  void find(const std::vector<Index>& among, std::initializer_list<State> states,
            std::vector<Index>& found) const;
  void judge(Index i, Products& products);
  [[nodiscard]] Residuals residuals_at_trial(Index i, const Products& products) const;
  void reject(Index i);
  void accept(Index i, const Residuals& now);
  [[nodiscard]] double change_of_hessian(Index i) const;
  void step(const std::vector<Index>& instances);
  void step_quickly(const std::vector<Index>& instances);
  [[nodiscard]] bool solve_quickly(Index i, QuickStep& quick, bool exactly);
  void step_carefully(const std::vector<Index>& instances);
  [[nodiscard]] bool step_diagonally(const std::vector<Index>& instances, bool derivatives);
  void use_step(Index i, Index k, const BatchSolution& solved);
  void go(Index i, Index k, const PointBlock& solved);
  /// Those of column k.
  void take_multipliers(Index i, Index k, const PointBlock& solved);
  void lean(Index i, const Vector& ray);
  /// Ends those of which it is known that they have no minimum.
  void dismiss(const std::vector<Index>& instances);
  void end(Index i, Status why);
  [[nodiscard]] double violation(Index i, const Products& products) const;

  const SmoothProgram& program_;
  const Settings& settings_;
  const PointBlock& initial_;
  Deadline deadline_{settings_.time_limit};
  std::shared_ptr<EquivalentProgram> equivalent_;
  Evaluator& evaluate_;
  Index n_, m_, p_, size_;
  DenseMatrix trial_, d_, gradient_, diagonal_;
  Vector trial_value_, zero_;
  std::vector<Progress> progress_;
  std::vector<Products> products_{};
  std::vector<Index> stepping_{}, quick_instances_{}, careful_instances_{};
  std::vector<AtSolution> at_solution_;  // of the last step, if that was an exact one
  std::vector<Index> bounded_;           // variables with a bound in any instance
  bool all_diagonal_;                    // the Hessians
  std::vector<DualNewton> engines_{};
  std::vector<Spare<QuickStep>> quick_{};
};

}  // namespace altdiff::detail
