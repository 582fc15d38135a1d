#pragma once

#include <memory>
#include <optional>

#include "engines/active_set/engine.hpp"
#include "engines/dual_newton.hpp"
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

  /// Once more, from the start and with an f that is easier to begin with; false if there is none.
  [[nodiscard]] bool run_hot(Index i);

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

  /// Which of these other points, one column an instance, are solutions too: they take the place of the
  /// first.
  [[nodiscard]] std::vector<Index> confirm(const std::vector<Index>& instances, const PointBlock& other);
  /// The last x that a barrier kept from the end of a domain, and that barrier; zero: there was none.   (N14)
  [[nodiscard]] std::pair<Vector, double> last_kept(Index i) const {
    return {start_.col(i), progress_[static_cast<std::size_t>(i)].last_barrier};
  }
  /// The quadratic programs are those at the solutions.
  void refresh();

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
    double rise = 0;              // of f along d, by its gradient
    double rounding = 0;          // what it may do to the violation
    double length = 1;            // of the step that is tried
    double sigma = 0;             // on the diagonal of the Hessian where that alone leads astray
    double added = 0;             // of it, to the Hessian of this step
    double distance = 0;          // the length of d
    double error = 0, best = 0;   // residual at x, and the smallest so far
    Temperature temperature{};    // of f
    double coldest = 0;           // barrier of these
    double last_barrier = 0;      // with which x was last kept
    double change = 0;            // of the Hessian by the last step
    double largest_gradient = 0;  // so far
    double largest_hessian = 0;   // of a function of the user's
    bool descended = true;        // the last step was clearly downhill
    int idle = 0, halvings = 0, leans = 0, retries = 0;
    std::int64_t since = 0;  // steps before this temperature
    bool doubtful = false;   // whether there is a minimum
    bool far = false;        // x has been
    bool stale = false;      // the Hessian belongs to another point
    bool careful = false;    // quick steps do not serve, or no more
    bool heated = false;     // f has been another
  };

  void proceed(const std::vector<Index>& wanted);
  void find(const std::vector<Index>& among, std::initializer_list<State> states,
            std::vector<Index>& found) const;
  void report(const std::vector<Index>& instances);
  void judge(Index i, Products& products);
  [[nodiscard]] bool finite_hessian(Index i) const;
  /// Those of f, whose gradient at v is known.
  [[nodiscard]] Residuals residuals_at(const PointView& v, Index i, const Products& products) const;
  [[nodiscard]] double flat(Index i) const;
  [[nodiscard]] Vector without_rounding(const PointView& v, Index i, const ProductsView& parts) const;
  [[nodiscard]] bool below_tangent(const Progress& now, double f) const;
  void reject(Index i);
  [[nodiscard]] bool lost(Index i);
  void accept(Index i, const Residuals& now);
  [[nodiscard]] double change_of_hessian(Index i) const;
  void step(const std::vector<Index>& instances);
  void step_quickly(const std::vector<Index>& instances);
  [[nodiscard]] bool solve_quickly(Index i, QuickStep& quick, bool exactly);
  void step_carefully(const std::vector<Index>& instances);
  [[nodiscard]] bool step_precisely(Index i);
  [[nodiscard]] bool step_diagonally(const std::vector<Index>& instances, bool derivatives);
  void use_step(Index i, Index k, const BatchSolution& solved);
  void go(Index i, Index k, const PointBlock& solved);
  /// Those of column k.
  void take_multipliers(Index i, Index k, const PointBlock& solved);
  void lean(Index i, const Vector& ray, Status why);
  [[nodiscard]] bool curves_down(Index i) const;
  void keep_within_reach(Index i);
  void add_diagonal(Index i);
  static void adapt_diagonal(Progress& now);
  /// Another f to begin with, whose kinks are wide; false if there are none, or it is too late.
  [[nodiscard]] bool heat(Index i);
  void cool(Index i);
  [[nodiscard]] bool hot(Index i) const { return progress_[static_cast<std::size_t>(i)].temperature.hot(); }
  void begin_again(Index i, const Vector& x, const Temperature& temperature);
  void show_f_itself(Index i);
  /// Ends those of which it is known that they have no minimum.
  void dismiss(const std::vector<Index>& instances);
  void end(Index i, Status why);
  void expand(const std::vector<Index>& instances, const DenseMatrix& X);
  [[nodiscard]] double violation(Index i, const Products& products) const;

  const SmoothProgram& program_;
  const Settings& settings_;
  const PointBlock& initial_;
  std::shared_ptr<EquivalentProgram> equivalent_;
  Evaluator& evaluate_;
  Index n_, m_, p_, size_;
  DenseMatrix start_{}, trial_, d_, gradient_, diagonal_;
  Vector trial_value_, zero_;
  std::vector<Progress> progress_;
  std::vector<Products> products_{};
  std::vector<Index> stepping_{}, quick_instances_{}, careful_instances_{};
  std::vector<AtSolution> at_solution_;  // of the last step, if that was an exact one
  std::vector<Index> bounded_;           // variables with a bound in any instance
  bool all_diagonal_;                    // the Hessians
  int rounds_ = 0;                       // reported
  std::vector<DualNewton> engines_{};
  std::vector<Spare<QuickStep>> quick_{};
};

}  // namespace altdiff::detail
