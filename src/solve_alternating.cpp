#include "solve_alternating.hpp"

#include <cmath>
#include <memory>

#include "derivatives/finish.hpp"
#include "engines/alternating.hpp"
#include "linalg/threads.hpp"
#include "problem/certificates.hpp"
#include "problem/checks.hpp"
#include "problem/residuals.hpp"

namespace altdiff::detail {

namespace {

constexpr double first_target = 1e-3;  // accuracy at which the active set is worth a first try of the finish
constexpr double degenerate_margin = 1e-9;
constexpr RoundLimits truncated{.tolerance = 0, .max_rounds = 20000, .patience = 300};

/// One problem on its way: scaled, through the engine, finished, and checked against the user's own numbers.
template <Matrix M>
class Solver {
 public:
  Solver(const QuadraticProgram<M>& qp, const Settings& settings)
      : settings_(settings), user_(normalised(qp)), program_(std::make_shared<ScaledProgram<M>>(user_)) {}

  Solution<M> run(const Point& initial) {
    if (!is_convex(user_.P)) return without_point(Status::NonConvex);
    const bool warm = initial.x.size() > 0;
    const Point start = program_->from_user(filled(initial, user_.n(), user_.p(), user_.m(), " of initial"));
    if (warm && settings_.finish && try_finish(start)) return solution_;
    return run_engine(start);
  }

 private:
  using Engine = AlternatingEngine<M>;
  using Outcome = typename Engine::Outcome;

  Solution<M> run_engine(const Point& start) {
    Engine engine(program_->qp, settings_, start);
    for (double target = settings_.finish ? std::max(first_target, settings_.tolerance) : settings_.tolerance;
         ; target *= 0.1) {
      const Outcome outcome = engine.advance(target);
      solution_.iterations = engine.rounds();
      if (certified(engine, outcome)) return solution_;
      if (settings_.finish && outcome == Outcome::Reached && try_finish(engine.point())) return solution_;
      accept(engine.point());
      const bool good = residuals_.below(settings_.tolerance);
      const bool stopped = outcome == Outcome::MaxIterations || outcome == Outcome::TimeLimit ||
                           outcome == Outcome::NumericalError;
      if ((good && target <= settings_.tolerance) || stopped)
        return keep_engine_point(engine, good ? Status::Solved : status_of(outcome));
    }
  }

  /// The finish's point, if its residuals, from the user's data, are below tolerance.
  bool try_finish(const Point& start) {
    auto finished = finish(program_, start, settings_.gradient_tolerance);
    if (!finished) return false;
    accept(finished->point);
    if (!residuals_.below(settings_.tolerance)) return false;
    solution_.status = Status::Solved;
    solution_.linearisation = std::move(finished->linearisation);
    describe(finished->point);
    return true;
  }

  /// Without the finish, derivatives run on the factor of the engine's last round, as in the paper.
  Solution<M> keep_engine_point(Engine& engine, Status status) {
    solution_.status = status;
    if (status != Status::NumericalError) {
      RoundLimits limits = truncated;
      limits.tolerance = settings_.gradient_tolerance;
      solution_.linearisation = std::make_shared<RoundsLinearisation<M>>(
          program_, engine.release_system(), active_rows(program_->qp, engine.point()), limits);
      describe(engine.point());
    }
    return solution_;
  }

  /// A certificate counts only if it holds for the user's data.
  bool certified(const Engine& engine, Outcome outcome) {
    if (outcome != Outcome::PrimalInfeasible && outcome != Outcome::DualInfeasible) return false;
    Point proof = program_->to_user(engine.drift());
    if (outcome == Outcome::PrimalInfeasible) {
      if (!CertificateCheck<M>(user_).proves_primal_infeasible(user_, proof)) return false;
      proof.x.setConstant(std::numeric_limits<double>::quiet_NaN());
      solution_.objective = std::numeric_limits<double>::infinity();
    } else {
      if (!CertificateCheck<M>(user_).proves_dual_infeasible(user_, proof.x)) return false;
      proof.y.setConstant(std::numeric_limits<double>::quiet_NaN());
      proof.z.setConstant(std::numeric_limits<double>::quiet_NaN());
      proof.z_box.setConstant(std::numeric_limits<double>::quiet_NaN());
      solution_.objective = -std::numeric_limits<double>::infinity();
    }
    static_cast<Point&>(solution_) = std::move(proof);
    solution_.status = status_of(outcome);
    solution_.primal_residual = solution_.dual_residual = solution_.duality_gap =
        Solution<M>{}.primal_residual;
    return true;
  }

  void accept(const Point& scaled_point) {
    static_cast<Point&>(solution_) = program_->to_user(scaled_point);
    residuals_ = ResidualCheck<M>(user_)(user_, solution_);
    solution_.primal_residual = residuals_.primal;
    solution_.dual_residual = residuals_.dual;
    solution_.duality_gap = residuals_.gap;
    solution_.objective = objective(user_, solution_.x);
  }

  void describe(const Point& scaled_point) {
    solution_.margin = margin(program_->qp, scaled_point);
    solution_.unique = solution_.linearisation->regular();
    solution_.degenerate = solution_.margin < degenerate_margin || !solution_.unique;
  }

  Solution<M> without_point(Status status) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    static_cast<Point&>(solution_) = {.x = Vector::Constant(user_.n(), nan),
                                      .y = Vector::Constant(user_.p(), nan),
                                      .z = Vector::Constant(user_.m(), nan),
                                      .z_box = Vector::Constant(user_.n(), nan)};
    solution_.status = status;
    solution_.objective = nan;
    return solution_;
  }

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

  const Settings& settings_;
  QuadraticProgram<M> user_;
  std::shared_ptr<const ScaledProgram<M>> program_;
  Solution<M> solution_;
  Residuals residuals_;
};

}  // namespace

template <Matrix M>
Solution<M> solve_alternating(const QuadraticProgram<M>& qp, const Settings& settings, const Point& initial) {
  return Solver<M>(qp, settings).run(initial);
}

template Solution<DenseMatrix> solve_alternating(const QuadraticProgram<DenseMatrix>&, const Settings&,
                                                 const Point&);
template Solution<SparseMatrix> solve_alternating(const QuadraticProgram<SparseMatrix>&, const Settings&,
                                                  const Point&);

}  // namespace altdiff::detail
