#include <algorithm>
#include <altdiff/smooth.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "batch/grouping.hpp"
#include "batch/linearisation.hpp"
#include "linalg/threads.hpp"
#include "problem/checks.hpp"
#include "smooth/newton.hpp"

namespace altdiff {

namespace {

using namespace detail;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

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

/// Where f can be evaluated, and the bounds allow.
Vector first_point(const std::vector<InstanceTerm>& terms, const Instance& instance) {
  const Index n = instance.matrices.n;
  const VectorsView data = instance.vectors();
  Vector lower = Vector::Constant(n, -infinity);
  Vector upper = Vector::Constant(n, infinity);
  if (data.lb.size() > 0) lower = data.lb;
  if (data.ub.size() > 0) upper = data.ub;
  Vector x = Vector::Zero(n);
  for (const InstanceTerm& term : terms) {
    if (term.quadratic() || term.map() != nullptr) continue;
    for (Index j = 0; j < n; ++j) {
      const double offset = term.offset() != nullptr ? term.offset()[j] : 0;
      lower[j] = std::max(lower[j], offset + term.phi().lower());
      upper[j] = std::min(upper[j], offset + term.phi().upper());
      if (std::isfinite(term.phi().lower())) x[j] = offset + term.phi().inside();
    }
  }
  for (Index j = 0; j < n; ++j) {
    if (x[j] > lower[j] && x[j] < upper[j]) continue;
    const bool both = std::isfinite(lower[j]) && std::isfinite(upper[j]);
    if (both) {
      x[j] = 0.5 * (lower[j] + upper[j]);
    } else {
      x[j] = x[j] <= lower[j] ? lower[j] + 1 : upper[j] - 1;
    }
  }
  return x;
}

/// A batch on its way.
class SmoothSolver {
 public:
  SmoothSolver(const SmoothProgram& program, const Settings& settings, const PointBlock& initial)
      : program_(program), settings_(settings), initial_(initial), newton_(program, settings, initial) {}

  SmoothSolution run() {
    const Index size = program_.constraints.size;
    const ScopedBlasThreads blas_threads(size == 1 ? program_.constraints.n : 0, settings_.num_threads);
    std::vector<Index> valid;
    DenseMatrix start = DenseMatrix::Zero(program_.constraints.n, size);
    for (Index i = 0; i < size; ++i) {
      const Instance instance = instance_of(newton_.equivalent->program, i);
      const auto& terms = newton_.evaluator().terms(i);
      if (!valid_vectors(instance) || !valid_constraints(instance) ||
          !std::ranges::all_of(terms, [](const InstanceTerm& term) { return term.valid(); }))
        continue;
      valid.push_back(i);
      const bool given = initial_.x.size() > 0 && initial_.x.col(i).allFinite();
      start.col(i) = given ? Vector(initial_.x.col(i)) : first_point(terms, instance);
    }
    newton_.run(valid, start);
    return conclude();
  }

 private:
  static bool valid_constraints(const Instance& instance) {
    MatricesView matrices = instance.matrices;
    matrices.P = nullptr;
    return all_finite_or_absent(matrices.G, matrices.m * matrices.n) &&
           all_finite_or_absent(matrices.A, matrices.p * matrices.n);
  }
  static bool all_finite_or_absent(const double* numbers, Index count) {
    return numbers == nullptr || Eigen::Map<const Vector>(numbers, count).allFinite();
  }

  /// The quadratic programs at the solutions say the rest: derivatives, margins, and whether x is unique.
  SmoothSolution conclude() {
    const BatchProgram& program = newton_.equivalent->program;
    const Index size = program.size;
    const bool all = std::ranges::all_of(newton_.status, [](Status s) { return s == Status::Solved; }) &&
                     static_cast<Index>(newton_.last_instances.size()) == size && size > 0;
    SmoothSolution solution;
    if (all) {
      static_cast<BatchSolution&>(solution) = std::move(newton_.last);
    } else {
      for (Index i = 0; i < size; ++i)
        if (newton_.status[at(i)] != Status::Solved) newton_.equivalent->q.col(i).setConstant(nan);
      Settings settings = settings_;
      settings.tolerance = infinity;
      settings.tolerance = 1e-7;
      settings.method = Method::Auto;
      settings.finish = true;
      settings.log = {};
      static_cast<BatchSolution&>(solution) = solve(program, settings, newton_.point);
    }
    for (Index i = 0; i < size; ++i) take(i, solution);
    solution.equivalent = newton_.equivalent;
    return solution;
  }

  void take(Index i, SmoothSolution& solution) const {
    const Residuals& residuals = newton_.residuals[at(i)];
    if (newton_.status[at(i)] != Status::Solved || solution.status[at(i)] != Status::Solved) {
      solution.point.x.col(i) = newton_.point.x.col(i);
      solution.point.y.col(i) = newton_.point.y.col(i);
      solution.point.z.col(i) = newton_.point.z.col(i);
      solution.point.z_box.col(i) = newton_.point.z_box.col(i);
    }
    solution.status[at(i)] = newton_.status[at(i)];
    solution.objective[i] = newton_.value[i];
    solution.iterations[at(i)] = newton_.steps[at(i)];
    solution.primal_residual[i] = residuals.primal;
    solution.dual_residual[i] = residuals.dual;
    solution.duality_gap[i] = residuals.gap;
  }

  const SmoothProgram& program_;
  const Settings& settings_;
  const PointBlock& initial_;
  Newton newton_;
};

}  // namespace

SmoothSolution solve(const SmoothProgram& program, const Settings& settings, const PointBlock& initial) {
  check(settings);
  check_terms(program);
  return SmoothSolver(program, settings, initial).run();
}

}  // namespace altdiff
