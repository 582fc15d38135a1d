#include <algorithm>
#include <altdiff/smooth.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "batch/grouping.hpp"
#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/threads.hpp"
#include "problem/checks.hpp"
#include "problem/deadline.hpp"
#include "smooth/first_point.hpp"
#include "smooth/held_ends.hpp"
#include "smooth/lifted.hpp"
#include "smooth/newton.hpp"
#include "smooth/recession.hpp"
#include "smooth/separable.hpp"

namespace altdiff {

namespace {

using namespace detail;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double fair = 1e-10;           // a residual that is no rounding
constexpr double of_derivatives = 1e-7;  // residuals of the quadratic programs at the solutions
constexpr double infinity = std::numeric_limits<double>::infinity();

void check_terms(const SmoothProgram& program) {
  const Index n = program.constraints.n;
  require(program.evaluate || !program.terms.empty(), "the objective has no terms");
  for (const Term& term : program.terms) {
    const bool mapped = term.map.data != nullptr;
    require(term.kind == TermKind::Quadratic || mapped || term.rows == n,
            "a term without a map must have n = ", n, " rows, got ", term.rows);
    require(term.kind != TermKind::Power || term.power >= 2, "power must be at least 2, got ", term.power);
  }
}

/// A batch on its way: the dual method where f is separable, Newton's for the rest.
class SmoothSolver {
 public:
  SmoothSolver(const SmoothProgram& program, const Settings& settings, const PointBlock& initial)
      : program_(program),
        settings_(settings),
        initial_(initial),
        size_(program.constraints.size),
        equivalent_(std::make_shared<EquivalentProgram>(program.constraints)),
        evaluator_(program, settings.num_threads),
        separable_(program, evaluator_, settings) {}

  [[nodiscard]] EquivalentProgram& equivalent() const { return *equivalent_; }

  SmoothSolution run() {
    const ScopedBlasThreads blas_threads(size_ == 1 ? program_.constraints.n : 0, settings_.num_threads);
    std::vector<Index> left;
    for (Index i = 0; i < size_; ++i)
      if (valid(i)) left.push_back(i);
    left = separable_.run(left, initial_);
    if (left.empty()) return without_newton();
    const Settings rest = for_the_rest();
    Newton newton(program_, rest, initial_, equivalent_, evaluator_);
    DenseMatrix start = DenseMatrix::Zero(program_.constraints.n, size_);
    for (const Index i : left) start.col(i) = likely_start(i);
    newton.run(left, start);
    if (!program_.evaluate) start_again(left, newton, start);
    for (const Index i : left) look_for_reason(i, newton);
    return conclude(newton);
  }

 private:
  [[nodiscard]] bool valid(Index i) const {
    const Instance instance = instance_of(equivalent_->program, i);
    const MatricesView& data = instance.matrices;
    return valid_vectors(instance) && (data.m == 0 || all_finite(data.G, data.m * data.n)) &&
           (data.p == 0 || all_finite(data.A, data.p * data.n)) &&
           std::ranges::all_of(evaluator_.terms(i), [](const InstanceTerm& term) { return term.valid(); });
  }

  /// With the time that is left.
  [[nodiscard]] Settings for_the_rest() const {
    Settings rest = settings_;
    rest.time_limit = deadline_.rest();
    return rest;
  }

  /// The user's, or one that is likely to be inside the domain.
  [[nodiscard]] Vector likely_start(Index i) const {
    if (initial_.x.size() > 0 && initial_.x.col(i).allFinite()) return initial_.x.col(i);
    return likely_point(evaluator_.terms(i), instance_of(equivalent_->program, i));
  }

  /// Those for whom that was outside of it, from a point that is not; who has none leaves.
  void start_again(std::vector<Index>& instances, Newton& newton, DenseMatrix& start) const {
    std::vector<Index> again;
    std::erase_if(instances, [&](Index i) {
      if (newton.status[at(i)] != Status::InvalidData) return false;
      if (!find_start(i, newton, start)) return true;
      again.push_back(i);
      return false;
    });
    if (!again.empty()) newton.run(again, start);
  }

  /// A point inside the domain; false if there is none, and all is said.
  bool find_start(Index i, Newton& newton, DenseMatrix& start) const {
    const auto& terms = evaluator_.terms(i);
    const FirstPoint first = first_point(terms, instance_of(equivalent_->program, i), for_the_rest());
    if (first.status == Status::Solved) {
      start.col(i) = first.x;
      return true;
    }
    newton.status[at(i)] = first.status;
    if (first.status == Status::PrimalInfeasible) declare_infeasible(i, first.proof, newton);
    if (first.status != Status::NumericalError || first.x.size() == 0) return false;
    newton.point.x.col(i) = first.x;
    if (!program_.evaluate) (void)lift(i, newton);
    return false;
  }

  /// A method that found no point may have had none to find.
  void look_for_reason(Index i, Newton& newton) const {
    const bool failed =
        newton.status[at(i)] == Status::NumericalError || newton.status[at(i)] == Status::MaxIterations;
    if (newton.status[at(i)] == Status::Solved && newton.residuals[at(i)].worst() > fair &&
        !program_.evaluate)
      (void)lift(i, newton);
    if (!failed) return;
    const Instance instance = instance_of(equivalent_->program, i);
    if (!program_.evaluate) {
      const auto ray = find_ray(evaluator_.terms(i), instance, for_the_rest(), newton.point.x.col(i));
      if (ray.has_value()) {
        newton.declare_endless(i, ray->d, ray->endless);
        return;
      }
    }
    if (!program_.evaluate && lift(i, newton)) return;
    if (std::ranges::none_of(evaluator_.terms(i),
                             [](const InstanceTerm& term) { return term.domain_rows() > 0; }))
      return;
    const FirstPoint widest = widest_point(evaluator_.terms(i), instance, for_the_rest());
    if (widest.status == Status::PrimalInfeasible) declare_infeasible(i, widest.proof, newton);
  }

  /// Where rows of a map hide how close to the end of their domain they are.
  bool lift(Index i, Newton& newton) const {
    const auto found = solve_lifted(evaluator_.terms(i), instance_of(equivalent_->program, i), for_the_rest(),
                                    newton.point.x.col(i));
    if (!found.has_value()) return false;
    newton.point.x.col(i) = found->point.x;
    newton.point.y.col(i) = found->point.y;
    newton.point.z.col(i) = found->point.z;
    newton.point.z_box.col(i) = found->point.z_box;
    newton.status[at(i)] = Status::Solved;
    newton.value[i] = found->value;
    newton.residuals[at(i)] = found->residuals;
    newton.steps[at(i)] += found->steps;
    newton.forget(i);  // the program below is another one
    Eigen::Map<DenseMatrix>(equivalent_->hessian(i), found->hessian.rows(), found->hessian.cols()) =
        found->hessian;
    equivalent_->q.col(i) = found->gradient - found->hessian * found->point.x;
    equivalent_->rows[i] = found->rows;
    return true;
  }

  static void declare_infeasible(Index i, const Point& proof, Newton& newton) {
    newton.status[at(i)] = Status::PrimalInfeasible;
    newton.value[i] = infinity;
    newton.point.x.col(i).setConstant(nan);
    newton.point.y.col(i) = proof.y;
    newton.point.z.col(i) = proof.z;
    newton.point.z_box.col(i) = proof.z_box;
  }

  /// Everything that is not solved, in the place of a solution.
  SmoothSolution without_newton() {
    SmoothSolution solution;
    static_cast<BatchSolution&>(solution) = unsolved(program_.constraints);
    auto linearisation = std::make_shared<BatchLinearisation>();
    linearisation->chunks = {.size = size_, .width = 1};
    linearisation->instances.resize(at(size_));
    separable_.write(solution, *linearisation);
    solution.linearisation = std::move(linearisation);
    solution.equivalent = equivalent_;
    return solution;
  }

  SmoothSolution conclude(Newton& newton) {
    SmoothSolution solution;
    static_cast<BatchSolution&>(solution) = found_by(newton);
    separable_.write(solution, *std::const_pointer_cast<BatchLinearisation>(solution.linearisation));
    solution.equivalent = equivalent_;
    return solution;
  }

  /// The quadratic programs at the solutions say the rest: derivatives, margins, and whether x is unique.
  BatchSolution found_by(Newton& newton) {
    const bool all = std::ranges::all_of(newton.status, [](Status s) { return s == Status::Solved; }) &&
                     newton.last_instances.size() == at(size_);
    BatchSolution solution;
    if (newton.differentiate_diagonally() || all) {
      solution = std::move(newton.last);
    } else if (std::optional<BatchSolution> quick = newton.linearise()) {
      return std::move(*quick);
    } else {
      for (Index i = 0; i < size_; ++i)
        if (newton.status[at(i)] != Status::Solved) equivalent_->q.col(i).setConstant(nan);
      Settings settings = settings_;
      settings.tolerance = std::max(of_derivatives, settings_.tolerance);
      settings.method = Method::Auto;
      settings.finish = true;
      settings.log = {};
      solution = solve(equivalent_->program, settings, newton.point);
    }
    // Quadratic programs without bounds have no multipliers of them.
    if (solution.point.z_box.rows() == 0)
      solution.point.z_box = DenseMatrix::Zero(program_.constraints.n, size_);
    for (Index i = 0; i < size_; ++i) take(newton, i, solution);
    return solution;
  }

  void take(const Newton& newton, Index i, BatchSolution& solution) const {
    const Residuals& residuals = newton.residuals[at(i)];
    const bool lifted = equivalent_->rows.contains(i);  // its program stands for derivatives only
    if (lifted || newton.status[at(i)] != Status::Solved || solution.status[at(i)] != Status::Solved) {
      solution.point.x.col(i) = newton.point.x.col(i);
      solution.point.y.col(i) = newton.point.y.col(i);
      solution.point.z.col(i) = newton.point.z.col(i);
      solution.point.z_box.col(i) = newton.point.z_box.col(i);
    }
    const VectorsView bounds = instance_of(equivalent_->program, i).vectors();  // perhaps ends of the domain
    auto x = solution.point.x.col(i);
    if (bounds.lb.size() > 0 && newton.status[at(i)] == Status::Solved) x = x.cwiseMax(bounds.lb);
    if (bounds.ub.size() > 0 && newton.status[at(i)] == Status::Solved) x = x.cwiseMin(bounds.ub);
    solution.status[at(i)] = newton.status[at(i)];
    solution.objective[i] = newton.value[i];
    solution.iterations[at(i)] = newton.steps[at(i)];
    solution.primal_residual[i] = residuals.primal;
    solution.dual_residual[i] = residuals.dual;
    solution.duality_gap[i] = residuals.gap;
  }

  const SmoothProgram& program_;
  const Settings& settings_;
  const Deadline deadline_{settings_.time_limit};
  const PointBlock& initial_;
  Index size_;
  std::shared_ptr<EquivalentProgram> equivalent_;
  Evaluator evaluator_;
  SeparableBatch separable_;
};

}  // namespace

SmoothSolution solve(const SmoothProgram& program, const Settings& settings, const PointBlock& initial) {
  check(settings);
  check_terms(program);
  const HeldEnds ends(program);
  SmoothSolver solver(ends.program(), settings, initial);
  SmoothSolution solution = solver.run();
  ends.restore(solver.equivalent().program);
  return solution;
}

}  // namespace altdiff
