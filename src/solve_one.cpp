#include "solve_one.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <concepts>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "derivatives/finish.hpp"
#include "derivatives/least_norm.hpp"
#include "derivatives/on_set.hpp"
#include "engines/alternating.hpp"
#include "engines/infeasibility.hpp"
#include "engines/interior_point.hpp"
#include "linalg/norms.hpp"
#include "linalg/watch.hpp"
#include "problem/certificates.hpp"
#include "problem/checks.hpp"
#include "problem/residuals.hpp"
#include "problem/sparse_program.hpp"
#include "progress_log.hpp"
#include "solve_carefully.hpp"
#include "solve_near_by.hpp"

namespace altdiff::detail {

namespace {

constexpr double first_target = 1e-3;  // accuracy at which the active set is worth a first try of the finish
constexpr double interior_target = 1e-10;  // of the interior point, before the finish
constexpr double doubtful_rho = 1e-4;  // proximal weight where P is not quite convex; its largest entry is 1
constexpr double no_curvature = 1e-8;  // below minus this P curves downwards
constexpr double early_tolerance = 1e-8;  // of a finish before the interior point is done
constexpr double clearly_better = 0.1;
constexpr double far_away = 1e9;
constexpr int most_rounds = 200;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr RoundLimits truncated{.tolerance = 0, .max_rounds = 20000, .patience = 300};

/// The same set with the weights of its rows in the units of another scaling (S1).
template <Matrix From, Matrix To>
ActiveSet with_units_of(ActiveSet set, const ScaledProgram<From>& from, const ScaledProgram<To>& to) {
  if (!set.soft()) return set;
  const double c = from.c / to.c;
  set.give.z.array() *= c * (to.E_g.array() / from.E_g.array()).square();
  set.give.box.array() *= c * (from.D.array() / to.D.array()).square();
  return set;
}

template <Matrix M>
Solution<M> no_point(const QuadraticProgram<M>& qp, Status status) {
  Solution<M> solution;
  static_cast<Point&>(solution) = {.x = Vector::Constant(qp.n(), nan),
                                   .y = Vector::Constant(qp.p(), nan),
                                   .z = Vector::Constant(qp.m(), nan),
                                   .z_box = Vector::Constant(qp.n(), nan)};
  solution.status = status;
  solution.objective = nan;
  return solution;
}

/// One problem on its way: scaled, through the engine, finished, and checked against the user's own numbers.
template <Matrix M>
class Solver {
 public:
  Solver(const QuadraticProgram<M>& qp, const Settings& settings, bool tries_again = true)
      : settings_(settings),
        user_(normalised(qp)),
        program_(std::make_shared<ScaledProgram<M>>(user_)),
        tries_again_(tries_again) {}

  Solution<M> run(const Point& initial) {
    try {
      return run_in_time(initial);
    } catch (const OutOfTime&) {
      return without_point(Status::TimeLimit);
    }
  }

  std::optional<Solution<M>> only_finish(const Point& point) {
    AugmentedSystem<M> system(program_->qp.P, program_->qp.A, program_->qp.G);
    if (!try_finish(program_->from_user(point), system)) return {};
    return solution_;
  }

 private:
  Solution<M> run_in_time(const Point& initial) {
    log_sizes();
    if (out_of_time()) return without_point(Status::TimeLimit);
    const Curvature curvature = curvature_of(user_.P);
    if (curvature == Curvature::Negative) return without_point(Status::NonConvex);
    if (out_of_time()) return without_point(Status::TimeLimit);
    const bool warm = initial.x.size() > 0;
    const Point start = program_->from_user(filled(initial, user_.n(), user_.p(), user_.m(), " of initial"));
    AugmentedSystem<M> system(program_->qp.P, program_->qp.A, program_->qp.G);
    if (curvature == Curvature::Doubtful) return run_doubtful(std::move(system));
    if (warm && settings_.finish && try_finish(start, system)) return solution_;
    const bool paper = settings_.method == Method::Auto && !settings_.finish;
    if (settings_.method == Method::Alternating || paper) return run_engine(start);
    return run_interior_point(std::move(system));
  }

  void log_sizes() const {
    log_line(settings_,
             "altdiff: %lld variables, %lld inequalities, %lld equalities; %lld numbers in P, %lld in G, "
             "%lld in A",
             static_cast<long long>(user_.n()), static_cast<long long>(user_.m()),
             static_cast<long long>(user_.p()), static_cast<long long>(stored(user_.P)),
             static_cast<long long>(stored(user_.G)), static_cast<long long>(stored(user_.A)));
  }

  using Engine = AlternatingEngine<M>;
  using Outcome = typename Engine::Outcome;
  using InteriorOutcome = typename InteriorPoint<M>::Outcome;

  /// A proximal term makes up for what P lacks.
  Solution<M> run_doubtful(AugmentedSystem<M> system) {
    run_interior_point(std::move(system), doubtful_rho);
    const bool minimum = solution_.status == Status::Solved && curves_upwards();
    if (minimum || solution_.status == Status::PrimalInfeasible || solution_.status == Status::TimeLimit)
      return solution_;
    return without_point(Status::NonConvex);
  }

  /// Whether P does, in the directions that the active constraints leave: then no small change of x is
  /// better.
  [[nodiscard]] bool curves_upwards() const {
    const auto& qp = program_->qp;
    const ActiveSet S = active_rows(qp, program_->from_user(solution_));
    AugmentedSystem<M> system(qp.P, qp.A, qp.G);
    const Overtime solved;
    return system.factorise(qp.P, qp.A, qp.G, penalties_on<M>(S, qp.p(), no_curvature));
  }

  Solution<M> run_interior_point(AugmentedSystem<M> system, double least_rho = 0) {
    InteriorPoint<M> engine(program_->qp, settings_, std::move(system), least_rho);
    const double target = std::min(interior_target, settings_.tolerance);
    auto outcome = settings_.finish ? engine.run_until_separated(target) : engine.run(target);
    if (outcome == InteriorOutcome::Separated) {
      solution_.iterations = engine.iterations();
      // Demanding whatever the tolerance: the active set must not depend on it.
      if (try_finish(engine.point(), engine.system(), std::min(early_tolerance, settings_.tolerance)))
        return solution_;
      outcome = engine.run(target);
    }
    solution_.iterations = engine.iterations();
    if (outcome == InteriorOutcome::DualInfeasible) {
      if (falls_for_ever(engine.proof())) return solution_;
      engine.ignore_rays();
      outcome = engine.run(target);
      solution_.iterations = engine.iterations();
    }
    if (outcome == InteriorOutcome::PrimalInfeasible && proves_primal(program_->to_user(engine.proof())))
      return solution_;
    const Point point = engine.point();
    AugmentedSystem<M>& used = engine.system();
    if (settings_.finish && try_finish(point, used)) return solution_;
    accept(point);
    if (residuals_.below(settings_.tolerance)) {
      // Without a finish the active set is a guess, and derivatives with it.
      if (settings_.finish && !limited_by_user() && solved_carefully(false)) return solution_;
      accept(point);
      return keep_point(point, Status::Solved, used);
    }
    if (settled_otherwise()) return solution_;
    if (out_of_time()) return keep_best(point, Status::TimeLimit, used);
    if (outcome == InteriorOutcome::MaxIterations) return keep_best(point, Status::MaxIterations, used);
    // Rounding to single precision is forgiven only where a minimum was found in spite of it.
    if (tries_again_ && curves_downwards(user_.P)) return without_point(Status::NonConvex);
    return keep_best(point, Status::NumericalError, used);
  }

  /// An engine's ray, made exact if need be. Where it can be proved too that there is no feasible x, that is
  /// said, whatever was met first.
  bool falls_for_ever(const Point& ray) {
    if (!proves_dual(program_->to_user(ray)) && !unboundedness_proved()) return false;
    (void)infeasibility_proved();
    return true;
  }

  /// What is tried where the engine neither solved the program nor met a proof on its way.
  bool settled_otherwise() {
    const bool again = !limited_by_user();
    if (again && settled_near_by()) return true;
    if (infeasibility_proved() || unboundedness_proved()) return true;
    if (again && (solved_carefully(true) || solved_within_tolerance() || solved_by_active_set() ||
                  solved_in_spite_of_curvature()))
      return true;
    if (!small_contradiction_) return false;
    certify_infeasible(*small_contradiction_);
    return true;
  }

  /// Nothing was precise enough: the engine's point, or that of a finish, whichever is closer.
  Solution<M> keep_best(const Point& point, Status status, AugmentedSystem<M>& system) {
    accept(point);
    if (!rejected_ || !(rejected_->error < residuals_.worst())) return keep_point(point, status, system);
    const Rejected closer = *rejected_;
    program_ = closer.program;
    accept(closer.finished.point);
    solution_.status = status;
    solution_.linearisation = closer.finished.linearisation;
    describe(closer.finished.point);
    return solution_;
  }

  /// Dense programs have been there before.
  bool solved_by_active_set() {
    if constexpr (std::same_as<M, SparseMatrix>) {
      if (out_of_time()) return false;
      const auto found = look_densely(user_);
      if (!found) return false;
      const Point point = program_->from_user(*found);
      AugmentedSystem<M> system(program_->qp.P, program_->qp.A, program_->qp.G);
      if (settings_.finish && try_finish(point, system)) return true;
      accept_user(*found);
      if (!residuals_.below(settings_.tolerance)) return false;
      (void)keep_point(point, Status::Solved, system);
      return true;
    }
    return false;
  }

  /// Where rounding to single precision made P curve downwards: steps of x+ = argmin f(x) + 1/2 (x - x_k)'R
  /// (x - x_k), which is convex (AS7). They end at a minimum where there is one.
  bool solved_in_spite_of_curvature() {
    if (!tries_again_ || !curves_downwards(user_.P)) return false;
    auto convex = sparse_program(user_);
    const Vector R = make_convex(convex.P);
    Vector x = Vector::Zero(R.size());
    for (int round = 0; round < most_rounds; ++round) {
      convex.q = user_.q - R.cwiseProduct(x);
      auto found = solve_once(convex);
      if (found.status != Status::Solved) return false;
      x = found.x;
      if (take_over(std::move(found))) return true;
    }
    return false;
  }

  /// Without the limits that are far away; the origin follows x to those that stop it.
  bool settled_near_by() {
    if (!tries_again_ || out_of_time()) return false;
    auto found = solve_near_by(
        sparse_program(user_), [this](const auto& qp) { return solve_once(qp); },
        [this](const Point& ray) { return proves_dual(ray); });
    if (!found) return false;
    if (found->status == Status::PrimalInfeasible) return proves_primal(static_cast<const Point&>(*found));
    if (found->status == Status::Solved) return take_over(std::move(*found));
    (void)infeasibility_proved();
    return true;
  }

  /// Another program that has the same solutions, without further tries.
  Solution<SparseMatrix> solve_once(const QuadraticProgram<SparseMatrix>& qp) {
    Settings settings = settings_;
    settings.log = {};
    auto found = Solver<SparseMatrix>(qp, settings, false).run({});
    solution_.iterations += found.iterations;
    return found;
  }

  /// The solution of a program with the same matrices, multipliers and active rows, if it is one of this
  /// program.
  bool take_over(Solution<SparseMatrix> found) {
    const int iterations = solution_.iterations;
    accept_user(static_cast<const Point&>(found));
    if (!residuals_.below(settings_.tolerance)) return false;
    solution_.status = Status::Solved;
    solution_.iterations = iterations;
    solution_.linearisation = std::move(found.linearisation);
    solution_.margin = found.margin;
    solution_.unique = found.unique;
    solution_.degenerate = found.degenerate;
    if (!solution_.unique) finish_again();
    return true;
  }

  /// For the conventions of this program; where it does not work out, what was found stays.
  void finish_again() {
    const Solution<M> found = solution_;
    AugmentedSystem<M> system(program_->qp.P, program_->qp.A, program_->qp.G);
    if (try_finish(program_->from_user(found), system)) {
      solution_.iterations = found.iterations;
    } else {
      solution_ = found;
    }
  }

  // A search for proofs of their own, where the engine neither solved nor found one on its way.

  bool infeasibility_proved() {
    if (out_of_time()) return false;
    const ScaledProgram<SparseMatrix> scaled(sparse_program(user_), ScalingStart::UnitRows);
    const auto found = find_primal_proof(scaled.qp, careful_solve(),
                                         [&](const Point& y) { return proves_primal(scaled.to_user(y)); });
    nearest_ = found.nearest.size() > 0 ? Vector(scaled.D.cwiseProduct(found.nearest)) : Vector();
    return found.proved;
  }

  /// Rows that contradict each other by less than the tolerance are met at the point that is nearest to all
  /// of them.
  bool solved_within_tolerance() {
    if (!tries_again_ || nearest_.size() == 0 || out_of_time()) return false;
    auto consistent = sparse_program(user_);
    consistent.b = consistent.A * nearest_;
    consistent.h = consistent.h.cwiseMax(consistent.G * nearest_);
    consistent.lb = consistent.lb.cwiseMin(nearest_);
    consistent.ub = consistent.ub.cwiseMax(nearest_);
    if (consistent.b == user_.b && consistent.h == user_.h) return false;
    auto found = solve_once(consistent);
    return found.status == Status::Solved && take_over(std::move(found));
  }

  bool unboundedness_proved() {
    if (out_of_time()) return false;
    const ScaledProgram<SparseMatrix> scaled(sparse_program(user_), ScalingStart::UnitRows);
    return find_dual_proof(scaled.qp, careful_solve(),
                           [&](const Point& d) { return proves_dual(scaled.to_user(d)); });
  }

  [[nodiscard]] SolveWellPosed careful_solve() const {
    return [this](const QuadraticProgram<SparseMatrix>& qp) { return solve_carefully(qp, settings_).points; };
  }

  [[nodiscard]] bool limited_by_user() const { return solution_.iterations >= settings_.max_iterations; }

  /// The point of another way, judged like any other; its derivatives are taken in the scaling that found it.
  bool solved_carefully(bool unfinished_too) {
    return solved_carefully(unfinished_too, CostUnit::Curvature) ||
           solved_carefully(unfinished_too, CostUnit::Objective);
  }

  bool solved_carefully(bool unfinished_too, CostUnit unit) {
    if (out_of_time()) return false;
    const CarefulPoints found = solve_carefully(sparse_program(user_), settings_, unit);
    solution_.iterations += found.iterations;
    const auto usual =
        std::exchange(program_, std::make_shared<ScaledProgram<M>>(user_, ScalingStart::UnitRows));
    AugmentedSystem<M> system(program_->qp.P, program_->qp.A, program_->qp.G);
    for (const Point& user_point : found.points) {
      const Point point = program_->from_user(user_point);
      if (settings_.finish && try_finish(point, system)) {
        keep_known_derivatives();
        return true;
      }
      accept(point);
      if (!unfinished_too || !residuals_.below(settings_.tolerance)) continue;
      (void)keep_point(point, Status::Solved, system);
      return true;
    }
    program_ = usual;
    return false;
  }

  /// Derivatives depend on the active set alone: those of a first finish serve where the set is the same, and
  /// so do not depend on the tolerance that made another try necessary.
  void keep_known_derivatives() {
    if (!rejected_) return;
    const auto& known = rejected_->finished.linearisation;
    const ActiveSet before = known->active();
    const ActiveSet now = solution_.linearisation->active();
    if (before.z == now.z && before.box == now.box) solution_.linearisation = known;
  }

  Solution<M> keep_point(const Point& scaled_point, Status status, AugmentedSystem<M>& system) {
    solution_.status = status;
    solution_.linearisation = status == Status::TimeLimit ? nullptr : linearised(scaled_point, system);
    if (solution_.linearisation) describe(scaled_point);
    return solution_;
  }

  [[nodiscard]] std::shared_ptr<const Linearisation> linearised(const Point& scaled_point,
                                                                AugmentedSystem<M>& system) const {
    const Overtime stopped;
    return linearise(program_, scaled_point, settings_.gradient_tolerance, system);
  }

  Solution<M> run_engine(const Point& start) {
    Engine engine(program_->qp, settings_, start);
    for (double target = settings_.finish ? std::max(first_target, settings_.tolerance) : settings_.tolerance;
         ; target *= 0.1) {
      const Outcome outcome = engine.advance(target);
      solution_.iterations = engine.rounds();
      if (certified(engine, outcome)) return solution_;
      if (settings_.finish && outcome == Outcome::Reached) {
        AugmentedSystem<M> system(program_->qp.P, program_->qp.A, program_->qp.G);
        if (try_finish(engine.point(), system)) return solution_;
      }
      accept(engine.point());
      const bool good = residuals_.below(settings_.tolerance);
      const bool stopped = outcome == Outcome::MaxIterations || outcome == Outcome::TimeLimit ||
                           outcome == Outcome::NumericalError;
      if ((good && target <= settings_.tolerance) || stopped)
        return keep_engine_point(engine, good ? Status::Solved : status_of(outcome));
    }
  }

  bool try_finish(const Point& start, AugmentedSystem<M>& system) {
    return try_finish(start, system, settings_.tolerance);
  }

  /// The finish's point, if its residuals, from the user's data, are below tolerance.
  bool try_finish(const Point& start, AugmentedSystem<M>& system, double tolerance) {
    auto finished = finish_in_time(program_, start, settings_.gradient_tolerance, system);
    if (!finished) return false;
    accept(finished->point);
    if (!residuals_.below(tolerance)) {
      if (!rejected_ || residuals_.worst() < clearly_better * rejected_->error)
        rejected_ = {.finished = std::move(*finished), .program = program_, .error = residuals_.worst()};
      system = AugmentedSystem<M>(program_->qp.P, program_->qp.A, program_->qp.G);  // it was given away
      return false;
    }
    if (is_ray()) return true;
    solution_.status = Status::Solved;
    solution_.linearisation = std::move(finished->linearisation);
    describe(finished->point);
    if (!solution_.unique) choose_least_norm_in_time(finished->set);
    return true;
  }

  /// A point so far out that its products drown q may be on its way to infinity: then it is a proof of that.
  bool is_ray() { return norm(solution_.x) > far_away && proves_dual(static_cast<const Point&>(solution_)); }

  /// False if there was no time; what was found first is a solution, too.
  bool choose_least_norm_in_time(const ActiveSet& set) {
    try {
      choose_least_norm(set);
      return true;
    } catch (const OutOfTime&) {
      return false;
    }
  }

  /// Where several x are as good, the least of them in the user's units (L1); else the one that was found.
  /// By (K2) for dense data too: the directions that cost nothing are lost in the rounding of (K1).
  void choose_least_norm(const ActiveSet& set) {
    using Sparse = SparseMatrix;
    const auto program =
        std::make_shared<const ScaledProgram<Sparse>>(sparse_program(user_), ScalingStart::RowsOnly);
    const Finished<Sparse> first_found{.point = program->from_user(solution_),
                                       .linearisation = solution_.linearisation,
                                       .set = with_units_of(set, *program_, *program)};
    const auto solve = [&](const QuadraticProgram<Sparse>& qp) {
      return solve_carefully(qp, settings_).points;
    };
    auto found = least_norm(program, first_found, settings_.gradient_tolerance, solve);
    if (!found) return;
    const Solution<M> first = solution_;
    accept_user(program->to_user(found->point));
    if (!residuals_.below(settings_.tolerance)) {
      solution_ = first;
      return;
    }
    solution_.linearisation = std::move(found->linearisation);
    describe(program->qp, found->point);
  }

  /// Without the finish, derivatives run on the factor of the engine's last round, as in the paper.
  Solution<M> keep_engine_point(Engine& engine, Status status) {
    solution_.status = status;
    if (engine.factorised() && status != Status::NumericalError && status != Status::TimeLimit) {
      const Overtime solved;
      RoundLimits limits = truncated;
      limits.tolerance = settings_.gradient_tolerance;
      solution_.linearisation = std::make_shared<RoundsLinearisation<M>>(
          program_, engine.release_system(), active_rows(program_->qp, engine.point()), limits);
      describe(engine.point());
    }
    return solution_;
  }

  bool certified(const Engine& engine, Outcome outcome) {
    if (outcome == Outcome::PrimalInfeasible) return proves_primal(program_->to_user(engine.drift()));
    return outcome == Outcome::DualInfeasible && falls_for_ever(engine.drift());
  }

  /// A certificate counts only if it holds for the user's data.
  bool proves_primal(Point proof) {
    const auto kind = CertificateCheck<M>(user_, settings_.tolerance).contradiction(user_, proof);
    if (kind == Contradiction::WithinTolerance) small_contradiction_ = proof;
    if (kind != Contradiction::BeyondTolerance) return false;
    certify_infeasible(std::move(proof));
    return true;
  }

  void certify_infeasible(Point proof) {
    proof.x.setConstant(nan);
    certify(std::move(proof), Status::PrimalInfeasible, infinity);
  }

  bool proves_dual(Point proof) {
    if (!CertificateCheck<M>(user_, settings_.tolerance).proves_dual_infeasible(user_, proof.x)) return false;
    if (!proof.x.allFinite()) return false;
    proof.y.setConstant(nan);
    proof.z.setConstant(nan);
    proof.z_box.setConstant(nan);
    certify(std::move(proof), Status::DualInfeasible, -infinity);
    return true;
  }

  void certify(Point proof, Status status, double value) {
    static_cast<Point&>(solution_) = std::move(proof);
    solution_.objective = value;
    solution_.status = status;
    solution_.primal_residual = solution_.dual_residual = solution_.duality_gap = infinity;
    solution_.linearisation.reset();
  }

  void accept(const Point& scaled_point) { accept_user(program_->to_user(scaled_point)); }

  void accept_user(Point point) {
    static_cast<Point&>(solution_) = std::move(point);
    residuals_ = ResidualCheck<M>(user_)(user_, solution_);
    solution_.primal_residual = residuals_.primal;
    solution_.dual_residual = residuals_.dual;
    solution_.duality_gap = residuals_.gap;
    solution_.objective = objective(user_, solution_.x);
  }

  void describe(const Point& scaled_point) { describe(program_->qp, scaled_point); }

  template <Matrix Scaled>
  void describe(const QuadraticProgram<Scaled>& scaled, const Point& scaled_point) {
    solution_.margin = margin(scaled, scaled_point);
    solution_.unique = solution_.linearisation->regular();
    solution_.degenerate =
        solution_.margin < degenerate_margin || !solution_.unique || !solution_.linearisation->independent();
  }

  Solution<M> without_point(Status status) { return solution_ = no_point<M>(user_, status); }

  static Status status_of(Outcome outcome) {
    switch (outcome) {
      case Outcome::Reached:
        return Status::Solved;
      case Outcome::MaxIterations:
        return Status::MaxIterations;
      case Outcome::TimeLimit:
        return Status::TimeLimit;
      case Outcome::PrimalInfeasible:
        return Status::PrimalInfeasible;
      case Outcome::DualInfeasible:
        return Status::DualInfeasible;
      case Outcome::NumericalError:
        return Status::NumericalError;
    }
    return Status::NumericalError;
  }

  /// A finish whose residuals were not below tolerance.
  struct Rejected {
    Finished<M> finished;
    std::shared_ptr<const ScaledProgram<M>> program;  // in whose units it is
    double error;
  };

  const Settings& settings_;
  QuadraticProgram<M> user_;
  std::shared_ptr<const ScaledProgram<M>> program_;
  bool tries_again_;  // with another program that has the same solutions
  Solution<M> solution_;
  Residuals residuals_;
  std::optional<Rejected> rejected_;
  std::optional<Point> small_contradiction_;  // that only an x within the tolerance could refute
  Vector nearest_;  // to all rows and bounds, where phase 1 found no proof that they contradict each other
};

}  // namespace

template <Matrix M>
Solution<M> solve_one(const QuadraticProgram<M>& qp, const Settings& settings, const Point& initial) {
  const auto begin = std::chrono::steady_clock::now();
  const Watch watch(settings.poll, settings.time_limit);
  Solution<M> solution =
      out_of_time() ? no_point<M>(qp, Status::TimeLimit) : Solver<M>(qp, settings).run(initial);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  log_end(settings, solution, seconds.count());
  return solution;
}

template <Matrix M>
std::optional<Solution<M>> finish_one(const QuadraticProgram<M>& qp, const Settings& settings,
                                      const Point& point) {
  return Solver<M>(qp, settings).only_finish(point);
}

template std::optional<Solution<DenseMatrix>> finish_one(const QuadraticProgram<DenseMatrix>&,
                                                         const Settings&, const Point&);
template Solution<DenseMatrix> solve_one(const QuadraticProgram<DenseMatrix>&, const Settings&, const Point&);
template Solution<SparseMatrix> solve_one(const QuadraticProgram<SparseMatrix>&, const Settings&,
                                          const Point&);

}  // namespace altdiff::detail
