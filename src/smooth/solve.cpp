#include <algorithm>
#include <altdiff/smooth.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "batch/grouping.hpp"
#include "batch/linearisation.hpp"
#include "batch/report.hpp"
#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/norms.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"
#include "problem/checks.hpp"
#include "smooth/first_point.hpp"
#include "smooth/held_ends.hpp"
#include "smooth/lifted.hpp"
#include "smooth/newton.hpp"
#include "smooth/recession.hpp"
#include "smooth/separable.hpp"
#include "solve_one.hpp"

namespace altdiff {

namespace {

using namespace detail;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double fair = 1e-10;           // a residual that is no rounding
constexpr double of_derivatives = 1e-7;  // residuals of the quadratic programs at the solutions
constexpr double same_point = 1e-7;      // of x and the solution of its quadratic program, relative
constexpr double a_little = 1e-10;       // on the diagonal, relative
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

  /// The same, telling the user.
  SmoothSolution run_aloud() {
    const BatchProgram& sizes = program_.constraints;
    const BatchReport report(settings_, std::max<Index>(2, size_),  // the header comes first
                             description(size_, "convex", sizes.n, sizes.m, sizes.p));
    SmoothSolution solution = run();
    std::vector<ReportLine> lines;
    lines.reserve(at(size_));
    for (Index i = 0; i < size_; ++i)
      lines.push_back({.engine = engine_of(i),
                       .status = solution.status[at(i)],
                       .iterations = solution.iterations[at(i)],
                       .primal = solution.primal_residual[i],
                       .dual = solution.dual_residual[i],
                       .gap = solution.duality_gap[i]});
    report.tell(lines);
    return solution;
  }

  SmoothSolution run() {
    const ScopedBlasThreads blas_threads(size_ == 1 ? program_.constraints.n : 0, settings_.num_threads);
    std::vector<Index> left;
    for (Index i = 0; i < size_; ++i)
      if (valid(i)) left.push_back(i);
    left = separable_.run(left, initial_);
    if (left.empty() || out_of_time()) return without_newton(left);
    Newton newton(program_, settings_, initial_, equivalent_, evaluator_);
    DenseMatrix start = DenseMatrix::Zero(program_.constraints.n, size_);
    for (const Index i : left) start.col(i) = likely_start(i);
    newton.run(left, start);
    if (!program_.evaluate) start_again(left, newton, start);
    for (const Index i : left) {
      look_for_reason(i, newton);
      if (failed(i, newton) && out_of_time()) newton.status[at(i)] = Status::TimeLimit;
    }
    return conclude(newton);
  }

 private:
  [[nodiscard]] std::string_view engine_of(Index i) const {
    if (separable_.has(i)) return "dual Newton";
    return equivalent_->rows.contains(i) ? "lifted Newton" : "Newton";
  }

  [[nodiscard]] bool valid(Index i) const {
    const Instance instance = instance_of(equivalent_->program, i);
    const MatricesView& data = instance.matrices;
    return valid_vectors(instance) && (data.m == 0 || all_finite(data.G, data.m * data.n)) &&
           (data.p == 0 || all_finite(data.A, data.p * data.n)) &&
           std::ranges::all_of(evaluator_.terms(i), [](const InstanceTerm& term) { return term.valid(); });
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
    const FirstPoint first = first_point(terms, instance_of(equivalent_->program, i));
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

  static bool failed(Index i, const Newton& newton) {
    return newton.status[at(i)] == Status::NumericalError || newton.status[at(i)] == Status::MaxIterations;
  }

  /// A method that found no point may have had none to find.
  void look_for_reason(Index i, Newton& newton) const {
    if (newton.status[at(i)] == Status::Solved && newton.residuals[at(i)].worst() > fair &&
        !program_.evaluate)
      (void)lift(i, newton);
    if (!failed(i, newton) || out_of_time()) return;
    const Instance instance = instance_of(equivalent_->program, i);
    if (!program_.evaluate) {
      const auto ray = find_ray(evaluator_.terms(i), instance, newton.point.x.col(i));
      if (ray.has_value()) {
        newton.declare_endless(i, ray->d, ray->endless);
        return;
      }
    }
    if (!program_.evaluate && lift(i, newton)) return;
    if (!program_.evaluate && try_again(i, newton)) return;
    if (std::ranges::none_of(evaluator_.terms(i),
                             [](const InstanceTerm& term) { return term.domain_rows() > 0; }))
      return;
    const FirstPoint widest = widest_point(evaluator_.terms(i), instance);
    if (widest.status == Status::PrimalInfeasible) declare_infeasible(i, widest.proof, newton);
  }

  /// From a point that satisfies the constraints, well inside the domain; then slowly.
  bool try_again(Index i, Newton& newton) const {
    const FirstPoint widest = widest_point(evaluator_.terms(i), instance_of(equivalent_->program, i));
    if (widest.status != Status::Solved) return false;
    DenseMatrix start = newton.point.x;
    start.col(i) = widest.x;
    const auto settled = [&] {
      const Status now = newton.status[at(i)];
      return now == Status::Solved || now == Status::DualInfeasible || now == Status::TimeLimit ||
             lift(i, newton);
    };
    newton.run({i}, start);
    if (settled()) return true;
    if (!newton.run_hot(i)) return false;
    if (settled()) return true;
    const auto [x, barrier] = newton.last_kept(i);
    return barrier > 0 && lift(i, newton, x, barrier);
  }

  /// Where rows of a map hide how close to the end of their domain they are.
  bool lift(Index i, Newton& newton) const { return lift(i, newton, newton.point.x.col(i), 0); }

  bool lift(Index i, Newton& newton, const Vector& start, double barrier) const {
    const auto found =
        solve_lifted(evaluator_.terms(i), instance_of(equivalent_->program, i), settings_, start, barrier);
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

  /// Nothing is left to do, or no time to do it in.
  SmoothSolution without_newton(const std::vector<Index>& late) {
    SmoothSolution solution;
    static_cast<BatchSolution&>(solution) = unsolved(program_.constraints);
    auto linearisation = std::make_shared<BatchLinearisation>();
    linearisation->chunks = {.size = size_, .width = 1};
    linearisation->instances.resize(at(size_));
    separable_.write(solution, *linearisation);
    for (const Index i : late) solution.status[at(i)] = Status::TimeLimit;
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
      newton.refresh();
      for (Index i = 0; i < size_; ++i)
        if (newton.status[at(i)] != Status::Solved) equivalent_->q.col(i).setConstant(nan);
      solution = solve(equivalent_->program, for_derivatives(), newton.point);
    }
    // Quadratic programs without bounds have no multipliers of them.
    if (solution.point.z_box.rows() == 0)
      solution.point.z_box = DenseMatrix::Zero(program_.constraints.n, size_);
    settle_others(newton, solution);
    for (Index i = 0; i < size_; ++i) take(newton, i, solution);
    return solution;
  }

  [[nodiscard]] Settings for_derivatives() const {
    Settings settings = settings_;
    settings.tolerance = std::max(of_derivatives, settings_.tolerance);
    settings.method = Method::Auto;
    settings.finish = true;
    settings.log = {};
    return settings;
  }

  /// Where the Hessian is singular the quadratic program has more than one solution. If f has too, the one
  /// that is chosen there counts here as well; if it has not, because the Hessian is only too small for a
  /// number, derivatives are those at x, with a little on the diagonal.
  void settle_others(Newton& newton, BatchSolution& solution) const {
    std::vector<Index> moved;
    for (Index i = 0; i < size_; ++i) {
      if (newton.status[at(i)] != Status::Solved || equivalent_->rows.contains(i)) continue;
      const auto x = newton.point.x.col(i);
      const double size = 1 + norm(x);
      if (solution.status[at(i)] != Status::Solved ||
          !(norm(solution.point.x.col(i) - x) <= same_point * size))
        moved.push_back(i);
    }
    if (moved.empty()) return;
    std::vector<Index> candidates;
    std::ranges::copy_if(moved, std::back_inserter(candidates),
                         [&](Index i) { return solution.status[at(i)] == Status::Solved; });
    const std::vector<Index> confirmed = newton.confirm(candidates, solution.point);
    auto& linearisation = *std::const_pointer_cast<BatchLinearisation>(solution.linearisation);
    for (const Index i : moved) {
      if (std::ranges::find(confirmed, i) != confirmed.end() || (size_ > 1 && out_of_time())) continue;
      linearise_at(newton, i, solution, linearisation);
    }
  }

  void linearise_at(const Newton& newton, Index i, BatchSolution& solution,
                    BatchLinearisation& linearisation) const {
    QuadraticProgram<DenseMatrix> qp = program_of(instance_of(equivalent_->program, i));
    const Point point{.x = newton.point.x.col(i),
                      .y = newton.point.y.col(i),
                      .z = newton.point.z.col(i),
                      .z_box = newton.point.z_box.col(i)};
    const double slope = norm(qp.P * point.x + qp.q);
    const double more = a_little * std::max(norm(qp.P), slope / (1 + norm(point.x)));
    qp.P.diagonal().array() += more;
    qp.q -= more * point.x;
    const Overtime solved;
    const auto found = finish_one(normalised(qp), for_derivatives(), point);
    linearisation.instances[at(i)] = {};
    solution.degenerate[at(i)] = 1;
    solution.status[at(i)] = Status::NumericalError;  // that is, x is Newton's
    if (!found.has_value()) return;
    linearisation.instances[at(i)].other = found->linearisation;
    solution.unique[at(i)] = found->unique ? 1 : 0;
    solution.margin[i] = found->margin;
  }

  /// x is always that of which f has said that it is the solution.
  void take(const Newton& newton, Index i, BatchSolution& solution) const {
    const Residuals& residuals = newton.residuals[at(i)];
    const bool lifted = equivalent_->rows.contains(i);  // its program stands for derivatives only
    const bool solved = newton.status[at(i)] == Status::Solved && solution.status[at(i)] == Status::Solved;
    if (lifted || !solved || !push_alike(newton, i, solution)) {
      solution.point.y.col(i) = newton.point.y.col(i);
      solution.point.z.col(i) = newton.point.z.col(i);
      solution.point.z_box.col(i) = newton.point.z_box.col(i);
    }
    solution.point.x.col(i) = newton.point.x.col(i);
    solution.status[at(i)] = newton.status[at(i)];
    solution.objective[i] = newton.value[i];
    solution.iterations[at(i)] = newton.steps[at(i)];
    solution.primal_residual[i] = residuals.primal;
    solution.dual_residual[i] = residuals.dual;
    solution.duality_gap[i] = residuals.gap;
  }

  /// Whether the multipliers of the quadratic program, which follow the convention, do what those of f did.
  [[nodiscard]] bool push_alike(const Newton& newton, Index i, const BatchSolution& solution) const {
    const MatricesView data = instance_of(equivalent_->program, i).matrices;
    const auto push = [&](const PointBlock& point) {
      Vector sum = point.z_box.col(i);
      sum.noalias() += data.A_rows() * point.y.col(i);
      sum.noalias() += data.G_rows() * point.z.col(i);
      return sum;
    };
    const Vector before = push(newton.point);
    return norm(push(solution.point) - before) <= 0.1 * settings_.tolerance * norm(before);
  }

  const SmoothProgram& program_;
  const Settings& settings_;
  const PointBlock& initial_;
  Index size_;
  std::shared_ptr<EquivalentProgram> equivalent_;
  Evaluator evaluator_;
  SeparableBatch separable_;
};

}  // namespace

SmoothSolution solve(const SmoothProgram& program, const Settings& settings, const PointBlock& initial) {
  const Watch watch(settings.poll, settings.time_limit);
  check(settings);
  check_terms(program);
  const HeldEnds ends(program);
  SmoothSolver solver(ends.program(), settings, initial);
  SmoothSolution solution = settings.log ? solver.run_aloud() : solver.run();
  ends.restore(solver.equivalent().program);
  return solution;
}

}  // namespace altdiff
