#include "smooth/separable.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/grouping.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"
#include "smooth/diagonal_linearisation.hpp"
#include "solve_one.hpp"

namespace altdiff::detail {

namespace {

constexpr Index most_chunks = 16;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double little = 1e-10;  // on the diagonal of M where rows are dependent

constexpr double largest_curvature = 1e100;

/// Without P and q.
QuadraticProgram<DenseMatrix> constraints_of(const Instance& instance) {
  const VectorsView vectors = instance.vectors();
  return {.G = instance.matrices.G_rows().transpose(),
          .h = vectors.h,
          .A = instance.matrices.A_rows().transpose(),
          .b = vectors.b,
          .lb = vectors.lb,
          .ub = vectors.ub};
}

/// (N2) at the solution.
QuadraticProgram<DenseMatrix> quadratic_at(const Instance& instance, const DualNewton& engine) {
  Vector H = engine.bound_curvature();
  for (Index j = 0; j < H.size(); ++j)
    if (engine.D[j] > 0) H[j] = 1 / engine.D[j];
  H = H.cwiseMin(largest_curvature);
  Vector q = -engine.z_box - H.cwiseProduct(engine.x);
  q.noalias() -= instance.matrices.A_rows() * engine.y;
  q.noalias() -= instance.matrices.G_rows() * engine.z;
  QuadraticProgram<DenseMatrix> qp = constraints_of(instance);
  qp.P = H.asDiagonal();
  qp.q = std::move(q);
  return qp;
}

}  // namespace

SeparableBatch::SeparableBatch(const SmoothProgram& program, const Evaluator& evaluator,
                               const Settings& settings)
    : program_(program),
      evaluator_(evaluator),
      settings_(settings),
      solutions_(program.constraints.size, settings) {
  if (program.evaluate) return;
  std::size_t others = 0;
  for (std::size_t t = 0; t < program.terms.size(); ++t) {
    const Term& term = program.terms[t];
    if (term.kind == TermKind::Quadratic && term.P.data == nullptr) continue;
    term_ = t;
    ++others;
  }
  if (others != 1) return;
  const Term& term = program.terms[term_];
  separable_ =
      term.map.data == nullptr && Phi{.kind = term.kind}.invertible() && term.kind != TermKind::Quadratic;
}

bool SeparableBatch::serves(Index i) const {
  const double* weight = evaluator_.terms(i)[term_].weight();
  const Index n = program_.constraints.n;
  return weight == nullptr || std::all_of(weight, weight + n, [](double w) { return w > 0; });
}

SeparableProgram SeparableBatch::program_of_instance(Index i) const {
  const auto& terms = evaluator_.terms(i);
  const Index n = program_.constraints.n;
  SeparableProgram separable{.constraints = instance_of(program_.constraints, i),
                             .phi = terms[term_].phi(),
                             .weight = terms[term_].weight(),
                             .offset = terms[term_].offset(),
                             .q = Vector::Zero(n)};
  for (const InstanceTerm& term : terms)
    if (term.q() != nullptr) separable.q += Eigen::Map<const Vector>(term.q(), n);
  return separable;
}

std::vector<Index> SeparableBatch::run(const std::vector<Index>& instances, const PointBlock& initial) {
  if (!separable_) return instances;
  const BatchProgram& sizes = program_.constraints;
  const auto count = static_cast<Index>(instances.size());
  const Index chunks = std::min(count, most_chunks);
  const Index work = count * sizes.n * (sizes.m + sizes.p);
  parallel_for(chunks, threads_for(settings_.num_threads, work), [&](Index chunk) {
    DualNewton engine(sizes.n, sizes.m, sizes.p);
    for (Index k = chunk; k < count; k += chunks) {
      if (out_of_time()) return;  // what is left ends as such elsewhere
      if (serves(instances[at(k)])) solve(instances[at(k)], initial, engine);
    }
  });
  std::vector<Index> left;
  std::ranges::copy_if(instances, std::back_inserter(left), [&](Index i) { return !solutions_.has(i); });
  return left;
}

void SeparableBatch::solve(Index i, const PointBlock& initial, DualNewton& engine) {
  const bool known = initial.x.size() > 0 && initial.y.col(i).allFinite() && initial.z.col(i).allFinite();
  const Vector y = known ? Vector(initial.y.col(i)) : Vector(Vector::Zero(program_.constraints.p));
  const Vector z = known ? Vector(initial.z.col(i)) : Vector(Vector::Zero(program_.constraints.m));
  solutions_.solve(i, program_of_instance(i), y, z, true, engine);
}

SeparableSolutions::SeparableSolutions(Index size, const Settings& settings)
    : settings_(settings), solved_(at(size)) {}

void SeparableSolutions::solve(Index i, const SeparableProgram& program, const VectorView& y,
                               const VectorView& z, bool derivatives, DualNewton& engine) {
  if (!engine.run(program, y, z) || !engine.residuals.below(settings_.tolerance) ||
      engine.steps > settings_.max_iterations)
    return;
  Solved solved{.point = {.x = engine.x, .y = engine.y, .z = engine.z, .z_box = engine.z_box},
                .objective = engine.objective,
                .margin = engine.margin,
                .residuals = engine.residuals,
                .steps = engine.steps};
  if (derivatives) settle(program.constraints, engine, solved);
  solved_[at(i)] = std::move(solved);
}

/// Those of the convention, if they push alike. x stays: next to the end of a domain its last digit is the
/// slope of f, which the quadratic program does not know.
void SeparableSolutions::take_multipliers(const Instance& instance, const Point& finished,
                                          Solved& solved) const {
  const auto push = [&](const Point& point) {
    Vector sum = point.z_box;
    sum.noalias() += instance.matrices.A_rows() * point.y;
    sum.noalias() += instance.matrices.G_rows() * point.z;
    return sum;
  };
  const Vector before = push(solved.point);
  const double allowed = 0.1 * settings_.tolerance * (1 + norm(before));
  if (!(norm(push(finished) - before) <= allowed)) return;
  solved.point.y = finished.y;
  solved.point.z = finished.z;
  solved.point.z_box = finished.z_box;
}

/// Derivatives; on a kink, or with redundant rows, by the convention that the finish knows.
void SeparableSolutions::settle(const Instance& instance, DualNewton& engine, Solved& solved) const {
  const bool independent = engine.factorise();
  solved.degenerate = !independent || engine.margin < degenerate_margin;
  if (solved.degenerate) {
    if (const auto finished = finish_one(quadratic_at(instance, engine), settings_, solved.point)) {
      take_multipliers(instance, *finished, solved);
      solved.linearisation = finished->linearisation;
      solved.unique = finished->unique;
      return;
    }
    if (!independent && !engine.factorise(little)) return;
  }
  solved.linearisation = std::make_shared<DiagonalLinearisation>(instance, engine);
}

void SeparableSolutions::write(BatchSolution& solution, BatchLinearisation& linearisation) const {
  for (std::size_t i = 0; i < solved_.size(); ++i) {
    const auto& found = solved_[i];
    if (!found.has_value()) continue;
    const Solved& solved = *found;
    const auto column = static_cast<Index>(i);
    solution.point.x.col(column) = solved.point.x;
    solution.point.y.col(column) = solved.point.y;
    solution.point.z.col(column) = solved.point.z;
    solution.point.z_box.col(column) = solved.point.z_box;
    solution.status[i] = Status::Solved;
    solution.objective[column] = solved.objective;
    solution.iterations[i] = solved.steps;
    solution.primal_residual[column] = solved.residuals.primal;
    solution.dual_residual[column] = solved.residuals.dual;
    solution.duality_gap[column] = solved.residuals.gap;
    solution.degenerate[i] = solved.degenerate ? 1 : 0;
    solution.unique[i] = solved.unique ? 1 : 0;
    solution.margin[column] = solved.margin;
    linearisation.instances[i] = {.other = solved.linearisation};
  }
}

BatchSolution unsolved(const BatchProgram& sizes) {
  BatchSolution solution;
  const Index size = sizes.size;
  solution.point = {.x = DenseMatrix::Constant(sizes.n, size, nan),
                    .y = DenseMatrix::Constant(sizes.p, size, nan),
                    .z = DenseMatrix::Constant(sizes.m, size, nan),
                    .z_box = DenseMatrix::Constant(sizes.n, size, nan)};
  solution.status.assign(at(size), Status::InvalidData);
  solution.iterations.assign(at(size), 0);
  solution.degenerate.assign(at(size), 0);
  solution.unique.assign(at(size), 0);
  for (Vector* numbers : {&solution.objective, &solution.primal_residual, &solution.dual_residual,
                          &solution.duality_gap, &solution.margin})
    *numbers = Vector::Constant(size, nan);
  return solution;
}

}  // namespace altdiff::detail
