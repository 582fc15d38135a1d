#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/grouping.hpp"
#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/pieces.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"
#include "problem/checks.hpp"
#include "smooth/newton.hpp"
#include "smooth/separable.hpp"
#include "solve_one.hpp"

// The steps of Newton's method: who solves their quadratic programs, and what these leave for derivatives.

namespace altdiff::detail {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double of_quadratic = 1e-9;  // tolerance of the quadratic programs
constexpr double fairly_near = 1e-3;   // and one that rounding may keep from falling
constexpr double near_the_end = 1e-7;  // a residual after which a step is likely to be the last
constexpr double to_rounding = 1e-14;  // a change of the Hessian that derivatives do not see
constexpr int most_retries = 3;        // after which a quadratic program's point is taken as it is
constexpr Index most_chunks = 32;

}  // namespace

/// The quadratic programs of all instances that want a step.
void Newton::step(const std::vector<Index>& instances) {
  if (out_of_time()) {
    for (const Index i : instances) end(i, Status::TimeLimit);
    return;
  }
  for (const Index i : instances) {
    keep_within_reach(i);
    add_diagonal(i);
  }
  if (all_diagonal_ && step_diagonally(instances, false)) {
    for (const Index i : instances) use_step(i, i, last);
    return;
  }
  step_quickly(instances);
  find(instances, {State::Stepping}, careful_instances_);
  std::erase_if(careful_instances_, [&](Index i) { return step_precisely(i); });
  step_carefully(careful_instances_);
}

/// Near the end, where steps do not help any more: (N2) in the step instead of in x. Its residuals are then
/// relative to the gradient, and not to H x, which may be enormous beside it.
bool Newton::step_precisely(Index i) {
  const Progress& now = progress_[at(i)];
  if (now.idle < 2 || !(now.error <= fairly_near) || now.retries > 0) return false;
  QuadraticProgram<DenseMatrix> qp = normalised(program_of(instance_of(equivalent_->program, i)));
  const Vector x = point.x.col(i);
  qp.q = gradient_.col(i);
  qp.b -= qp.A * x;
  qp.h -= qp.G * x;
  qp.lb -= x;
  qp.ub -= x;
  Settings settings;
  settings.tolerance = std::min(of_quadratic, settings_.tolerance);
  const auto found = solve_one(qp, settings, {});
  if (found.status != Status::Solved) return false;
  forget(i);  // `last` has another
  go(i, 0, {.x = x + found.x, .y = found.y, .z = found.z, .z_box = found.z_box});
  return true;
}

/// Those on which that has not failed yet. They leave the state `Stepping`.
void Newton::step_quickly(const std::vector<Index>& instances) {
  auto& chosen = quick_instances_;
  chosen.clear();
  for (const Index i : instances)
    if (!progress_[at(i)].careful) chosen.push_back(i);
  const auto count = static_cast<Index>(chosen.size());
  const Index chunks = std::min(count, most_chunks);
  while (std::ssize(quick_) < chunks) quick_.push_back(QuickStep::of_size(n_, m_, p_, bounded_));
  // The user's function is called from one thread only.
  const int threads =
      program_.largest_step ? 1 : threads_for(settings_.num_threads, count * n_ * n_ * (n_ + m_ + p_));
  parallel_for(chunks, threads, [&](Index chunk) {
    for (Index k = chunk; k < count; k += chunks) {
      const Index i = chosen[at(k)];
      if (!may_go_on(multiplications(n_, n_, n_ + m_ + p_))) return;  // `step` ends what is left
      QuickStep& quick = *quick_[at(chunk)];
      progress_[at(i)].careful = !solve_quickly(i, quick, progress_[at(i)].error <= near_the_end);
      if (!progress_[at(i)].careful) go(i, 0, quick.point());
    }
  });
}

bool Newton::solve_quickly(Index i, QuickStep& quick, bool exactly) {
  const Instance instance = instance_of(equivalent_->program, i);
  const int threads = size_ == 1 ? threads_for(settings_.num_threads, n_ * n_ * (n_ + m_ + p_)) : 1;
  const double tolerance = std::min(of_quadratic, settings_.tolerance);
  at_solution_[at(i)] = {};
  if (!exactly) return quick.solve(instance, point.z.col(i), point.z_box.col(i), threads);
  return quick.solve_exactly(instance, point.z.col(i), point.z_box.col(i), tolerance, threads,
                             at_solution_[at(i)]);
}

/// The others, as one batch; what is found stands in `last` too.
void Newton::step_carefully(const std::vector<Index>& instances) {
  if (instances.empty()) return;
  const Subset subset(equivalent_->program, instances);
  Settings settings = settings_;
  settings.tolerance = std::min(of_quadratic, settings_.tolerance);
  settings.max_iterations = Settings{}.max_iterations;
  settings.method = Method::Auto;
  settings.finish = true;
  settings.log = {};
  const bool known =
      initial_.x.size() > 0 || std::ranges::any_of(instances, [&](Index i) { return steps[at(i)] > 0; });
  if (known && std::ssize(instances) == size_) {
    last = solve(subset.program, settings, point);
  } else if (known) {
    last = solve(subset.program, settings,
                 {.x = point.x(Eigen::all, instances),
                  .y = point.y(Eigen::all, instances),
                  .z = point.z(Eigen::all, instances),
                  .z_box = point.z_box(Eigen::all, instances)});
  } else {
    last = solve(subset.program, settings);
  }
  last_instances = instances;
  for (std::size_t k = 0; k < instances.size(); ++k) {
    progress_[at(instances[k])].careful = true;  // whose last step is in `last` stays there
    use_step(instances[k], static_cast<Index>(k), last);
  }
}

/// The same where Hessians are diagonal, in the space of the constraints. False if one of them is not solved
/// that way; else `last` has a place for every instance of the batch.
bool Newton::step_diagonally(const std::vector<Index>& instances, bool derivatives) {
  Settings settings = settings_;
  settings.tolerance = std::min(of_quadratic, settings_.tolerance);
  settings.max_iterations = Settings{}.max_iterations;
  SeparableSolutions solutions(size_, settings);
  const auto count = static_cast<Index>(instances.size());
  const Index chunks = std::min(count, most_chunks);
  while (engines_.size() < at(chunks)) engines_.emplace_back(n_, m_, p_);
  parallel_for(chunks, threads_for(settings_.num_threads, count * n_ * (m_ + p_)), [&](Index chunk) {
    for (Index k = chunk; k < count; k += chunks) {
      const Index i = instances[at(k)];
      if (!may_go_on(multiplications(n_, m_ + p_, 1))) return;
      const Vector H = Eigen::Map<const DenseMatrix>(equivalent_->hessian(i), n_, n_).diagonal();
      if (!(H.minCoeff() > 0)) return;
      const Vector centre = -equivalent_->q.col(i).cwiseQuotient(H);  // 1/2 H (x - centre)^2
      const SeparableProgram program{.constraints = instance_of(program_.constraints, i),
                                     .phi = {.kind = TermKind::Square},
                                     .weight = H.data(),
                                     .offset = centre.data(),
                                     .q = Vector::Zero(n_)};
      solutions.solve(i, program, point.y.col(i), point.z.col(i), derivatives, engines_[at(chunk)]);
    }
  });
  if (!std::ranges::all_of(instances, [&](Index i) { return solutions.has(i); })) return false;
  last = unsolved(program_.constraints);
  auto linearisation = std::make_shared<BatchLinearisation>();
  linearisation->chunks = {.size = size_, .width = 1};
  linearisation->instances.resize(at(size_));
  solutions.write(last, *linearisation);
  last.linearisation = std::move(linearisation);
  last_instances = instances;
  return true;
}

bool Newton::differentiate_diagonally() {
  if (!all_diagonal_) return false;
  std::vector<Index> solved;
  for (Index i = 0; i < size_; ++i)
    if (status[at(i)] == Status::Solved) solved.push_back(i);
  return step_diagonally(solved, true);
}

void Newton::forget(Index i) {
  last_instances.clear();
  at_solution_[at(i)] = {};
  progress_[at(i)].careful = true;
}

std::optional<BatchSolution> Newton::linearise() {
  for (Index i = 0; i < size_; ++i) {
    if (status[at(i)] != Status::Solved || at_solution_[at(i)].linearised.known()) continue;
    if (progress_[at(i)].careful) return {};
    if (quick_.empty()) quick_.push_back(QuickStep::of_size(n_, m_, p_, bounded_));
    if (!solve_quickly(i, *quick_[0], true)) return {};
    progress_[at(i)].change = 0;
  }
  BatchSolution solution;
  solution.point = std::move(point);
  solution.objective = std::move(value);
  solution.iterations = std::move(steps);
  solution.degenerate.assign(at(size_), 0);
  solution.unique.assign(at(size_), 0);
  for (Vector* numbers :
       {&solution.primal_residual, &solution.dual_residual, &solution.duality_gap, &solution.margin})
    numbers->resize(size_);
  auto linearisation = std::make_shared<BatchLinearisation>();
  linearisation->chunks = {.size = size_, .width = 1};
  linearisation->bounded = bounded_;
  linearisation->instances.resize(at(size_));
  for (Index i = 0; i < size_; ++i) {
    const Residuals& found = residuals[at(i)];
    solution.primal_residual[i] = found.primal;
    solution.dual_residual[i] = found.dual;
    solution.duality_gap[i] = found.gap;
    solution.margin[i] = status[at(i)] == Status::Solved ? at_solution_[at(i)].margin : nan;
    if (status[at(i)] != Status::Solved) continue;
    solution.unique[at(i)] = 1;
    Linearised& instance = linearisation->instances[at(i)] = std::move(at_solution_[at(i)].linearised);
    if (progress_[at(i)].change > to_rounding) instance.refinements = std::max(instance.refinements, 1);
  }
  solution.status = std::move(status);
  solution.linearisation = std::move(linearisation);
  return solution;
}

void Newton::take_multipliers(Index i, Index k, const PointBlock& solved) {
  point.y.col(i) = solved.y.col(k);
  point.z.col(i) = solved.z.col(k);
  if (solved.z_box.rows() > 0)
    point.z_box.col(i) = solved.z_box.col(k);
  else  // there are no bounds
    point.z_box.col(i).setZero();
}

void Newton::use_step(Index i, Index k, const BatchSolution& solved) {
  const Status found = solved.status[at(k)];
  if (found == Status::PrimalInfeasible) {
    point.x.col(i).setConstant(nan);
    take_multipliers(i, k, solved.point);
    value[i] = infinity;
    end(i, found);
  } else if (found == Status::NonConvex && curves_down(i)) {
    end(i, found);
  } else if (found == Status::DualInfeasible || !solved.point.x.col(k).allFinite() ||
             (found != Status::Solved && progress_[at(i)].retries < most_retries)) {
    ++progress_[at(i)].retries;
    lean(i, solved.point.x.col(k), found);
  } else {
    go(i, k, solved.point);
  }
}

/// Towards the solution of the quadratic program, as far as the domain allows.
void Newton::go(Index i, Index k, const PointBlock& solved) {
  Progress& now = progress_[at(i)];
  // A bound may be the end of the domain: rounding must not lead beyond it.
  const VectorsView bounds = instance_of(equivalent_->program, i).vectors();
  auto x = trial_.col(i);
  x = solved.x.col(k);
  if (bounds.lb.size() > 0) x = x.cwiseMax(bounds.lb);
  if (bounds.ub.size() > 0) x = x.cwiseMin(bounds.ub);
  d_.col(i) = x - point.x.col(i);
  now.distance = d_.col(i).norm();
  take_multipliers(i, k, solved);
  const double largest = std::max({norm(point.y.col(i)), norm(point.z.col(i)), norm(point.z_box.col(i))});
  // Multipliers far from the solution may be enormous; once x is feasible, nu need not remember them.
  const double rise = now.rise = gradient_.col(i).dot(d_.col(i));
  if (now.violation <= 10 * now.rounding) {
    now.nu = 1.1 * largest;
  } else {
    // Multipliers may vanish, as at the minimum of f: that x becomes feasible must still count for more than
    // what the quadratic program says that it costs.
    const Eigen::Map<const DenseMatrix> H(equivalent_->hessian(i), n_, n_);
    const double cost = rise + 0.5 * d_.col(i).dot(H * d_.col(i));
    now.nu = std::max({now.nu, 1.1 * largest, 2 * (cost + now.noise) / now.violation});
  }
  now.slope = std::min(0.0, rise - now.nu * now.violation);
  now.length = 1;
  now.halvings = 0;
  now.retries = 0;
  InstanceTerm::Workspace workspace;
  for (const InstanceTerm& term : evaluate_.terms(i))
    now.length = term.largest_step(point.x.col(i), d_.col(i), now.length, workspace);
  if (program_.largest_step)
    now.length = std::min(now.length, program_.largest_step(i, point.x.col(i), d_.col(i)));
  diagonal_.col(i) =
      Eigen::Map<const DenseMatrix>(equivalent_->hessian(i), n_, n_).diagonal().array() - now.added;
  if (now.length != 1) x = point.x.col(i) + now.length * d_.col(i);
  now.state = State::Trial;
}

}  // namespace altdiff::detail
