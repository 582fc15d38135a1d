#include "smooth/newton.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/linearisation.hpp"
#include "linalg/norms.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/threads.hpp"
#include "smooth/separable.hpp"

namespace altdiff::detail {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double armijo = 1e-4;
constexpr double rounding_of_f = 1e-14;  // of f, relative to its parts
constexpr double of_one_row = 1e-15;     // of a row of the constraints
constexpr double exact = 1e-13;          // a residual that a step could hardly lower
constexpr double of_quadratic = 1e-9;    // tolerance of the quadratic programs
constexpr double some_descent = 1e-9;    // of f, relative to its parts
constexpr int most_steps = 2000;
constexpr int many_steps = 50;  // after which a minimum is doubtful
constexpr int most_halvings = 100;
constexpr int patience = 4;        // steps without a smaller residual, once it is below tolerance
constexpr int long_patience = 60;  // and before
constexpr Index most_chunks = 32;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// The sum of what is above zero.
template <class Expression>
double excess(const Eigen::MatrixBase<Expression>& v) {
  return v.derived().cwiseMax(0.0).sum();
}

}  // namespace

Newton::Newton(const SmoothProgram& program, const Settings& settings, const PointBlock& initial,
               std::shared_ptr<EquivalentProgram> equivalent, Evaluator& evaluator)
    : status(at(program.constraints.size), Status::InvalidData),
      steps(at(program.constraints.size), 0),
      value(Vector::Constant(program.constraints.size, nan)),
      residuals(at(program.constraints.size), {.primal = nan, .dual = nan, .gap = nan}),
      program_(program),
      settings_(settings),
      initial_(initial),
      equivalent_(std::move(equivalent)),
      evaluate_(evaluator),
      n_(program.constraints.n),
      m_(program.constraints.m),
      p_(program.constraints.p),
      size_(program.constraints.size),
      trial_(DenseMatrix::Zero(n_, size_)),
      d_(trial_),
      gradient_(trial_),
      diagonal_(trial_),
      trial_value_(Vector::Zero(size_)),
      zero_(Vector::Zero(n_)),
      progress_(at(size_)),
      products_(at(std::min(most_chunks, size_)), Products(n_, m_, p_, 1)),
      all_diagonal_((!program.evaluate || program.elementwise) && size_ > 0 &&
                    std::ranges::all_of(evaluator.terms(0), &InstanceTerm::diagonal)) {
  equivalent_->allocate();
  point = {.x = DenseMatrix::Constant(n_, size_, nan),
           .y = DenseMatrix::Constant(p_, size_, nan),
           .z = DenseMatrix::Constant(m_, size_, nan),
           .z_box = DenseMatrix::Constant(n_, size_, nan)};
}

std::vector<Index> Newton::in_state(const std::vector<Index>& among, State a, State b) const {
  std::vector<Index> found;
  for (const Index i : among)
    if (progress_[at(i)].state == a || progress_[at(i)].state == b) found.push_back(i);
  return found;
}

double Newton::seconds_left() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  return settings_.time_limit - elapsed.count();
}

void Newton::run(const std::vector<Index>& wanted, const DenseMatrix& start) {
  for (const Index i : wanted) {
    progress_[at(i)] = {.state = State::First, .best = infinity};
    trial_.col(i) = start.col(i);
    const bool known =
        initial_.x.size() > 0 && initial_.y.col(i).allFinite() && initial_.z.col(i).allFinite();
    point.y.col(i).setZero();
    point.z.col(i).setZero();
    point.z_box.col(i).setZero();
    if (!known) continue;
    point.y.col(i) = initial_.y.col(i);
    point.z.col(i) = initial_.z.col(i).cwiseMax(0.0);
  }
  std::vector<Index> waiting = wanted;
  while (!waiting.empty()) {
    if (settings_.poll) settings_.poll();
    evaluate_(waiting, trial_,
              {.value = trial_value_, .gradient = gradient_, .hessians = equivalent_->hessians()});
    const auto count = static_cast<Index>(waiting.size());
    const auto chunks = std::min(count, static_cast<Index>(products_.size()));
    parallel_for(chunks, threads_for(settings_.num_threads, count * n_ * (n_ + m_ + p_)), [&](Index chunk) {
      for (Index k = chunk; k < count; k += chunks) judge(waiting[at(k)], products_[at(chunk)]);
    });
    if (seconds_left() <= 0)
      for (const Index i : in_state(wanted, State::Trial, State::Stepping)) end(i, Status::TimeLimit);
    for (;;) {  // most have a step after the first
      const std::vector<Index> stepping = in_state(wanted, State::Stepping, State::Stepping);
      dismiss(stepping);
      if (in_state(stepping, State::Stepping, State::Stepping).empty()) break;
      step(stepping);
    }
    waiting = in_state(wanted, State::Trial, State::First);
  }
}

/// How far x is from satisfying the constraints, summed.
double Newton::violation(Index i, const Products& products) const {
  const Instance instance = instance_of(equivalent_->program, i);
  const VectorsView data = instance.vectors();
  const auto x = trial_.col(i);
  double sum = (products.Ax - data.b).cwiseAbs().sum();
  for (Index r = 0; r < m_; ++r) sum += std::max(0.0, products.Gx(r, 0) - data.h[r]);
  if (data.lb.size() > 0) sum += excess(data.lb - x);
  if (data.ub.size() > 0) sum += excess(x - data.ub);
  return sum;
}

/// f is known at the trial point: go there, or try again closer by.
void Newton::judge(Index i, Products& products) {
  Progress& now = progress_[at(i)];
  const double f = trial_value_[i];
  if (!std::isfinite(f) || !gradient_.col(i).allFinite() ||
      !Eigen::Map<const Vector>(equivalent_->hessian(i), n_ * n_).allFinite()) {
    if (now.state == State::First) {
      end(i, Status::InvalidData);
      return;
    }
    now.length *= 0.3;
    reject(i);
    return;
  }
  const Instance instance = instance_of(equivalent_->program, i);
  products.compute(instance, 0, trial_.col(i), point.y.col(i), point.z.col(i));
  equivalent_->q.col(i) = gradient_.col(i) - products.Px;
  const double far = violation(i, products);
  const double merit = f + now.nu * far;
  const double before = now.value + now.nu * now.violation;
  const double noise = now.noise + now.nu * now.rounding;
  const bool descends = merit <= before + armijo * now.length * now.slope + noise ||
                        (-now.slope <= 1e3 * noise && merit <= before + 1e3 * noise);
  if (now.state == State::Trial && !descends) {
    // The minimum of the parabola through what is known.
    const double bend = merit - before - now.length * now.slope;
    const double best = -0.5 * now.slope * now.length * now.length / bend;
    now.length = std::clamp(best, 0.1 * now.length, 0.5 * now.length);
    reject(i);
    return;
  }
  const bool first = now.state == State::First;
  now.descended = first || before - merit > some_descent * now.noise / rounding_of_f;
  now.value = f;
  now.violation = far;
  now.noise = rounding_of_f * (std::abs(f) + gradient_.col(i).cwiseProduct(trial_.col(i)).cwiseAbs().sum());
  now.rounding = of_one_row * (trial_.col(i).lpNorm<1>() + products.Ax.lpNorm<1>() + products.Gx.lpNorm<1>());
  point.x.col(i) = trial_.col(i);
  value[i] = f;
  now.state = State::Stepping;
  now.largest_gradient = std::max(now.largest_gradient, norm(gradient_.col(i)));
  if (first) return;
  accept(i, residuals_at_trial(i, products));
}

void Newton::reject(Index i) {
  Progress& now = progress_[at(i)];
  if (++now.halvings > most_halvings || now.length < 1e-300) {
    trial_.col(i) = point.x.col(i);
    end(i, residuals[at(i)].below(settings_.tolerance) ? Status::Solved : Status::NumericalError);
    return;
  }
  trial_.col(i) = point.x.col(i) + now.length * d_.col(i);
}

/// At a new point: is it the solution?
void Newton::accept(Index i, const Residuals& now) {
  Progress& progress = progress_[at(i)];
  residuals[at(i)] = now;
  ++steps[at(i)];
  const bool whole = progress.length == 1 && progress.sigma == 0;
  progress.sigma = 0;
  const double error = now.worst();
  const bool better = error < 0.5 * progress.best || (error > settings_.tolerance && progress.descended);
  progress.idle = better ? 0 : progress.idle + 1;
  progress.best = std::min(progress.best, error);
  const bool good = whole && now.below(settings_.tolerance);
  if (good && unchanged_hessian(i) && (error <= exact || progress.idle >= 2)) {
    end(i, Status::Solved);
    return;
  }
  if (good && progress.idle >= patience) {
    end(i, Status::Solved);
    return;
  }
  const auto hidden = [&](const InstanceTerm& term) { return term.hidden_by_rounding(point.x.col(i)); };
  if (progress.idle >= long_patience || std::ranges::any_of(evaluate_.terms(i), hidden)) {
    end(i, Status::NumericalError);
    return;
  }
  progress.doubtful = steps[at(i)] == many_steps;
  if (steps[at(i)] >= std::min<std::int64_t>(settings_.max_iterations, most_steps))
    end(i, Status::MaxIterations);
}

void Newton::end(Index i, Status why) {
  progress_[at(i)].state = State::Done;
  status[at(i)] = why;
  if (why != Status::InvalidData) return;
  for (DenseMatrix* part : {&point.x, &point.y, &point.z, &point.z_box}) part->col(i).setConstant(nan);
}

/// The quadratic programs of all instances that want a step.
void Newton::step(const std::vector<Index>& instances) {
  if (all_diagonal_ && step_diagonally(instances, false)) {
    for (const Index i : instances) use_step(i, i, last);
    return;
  }
  if (seconds_left() <= 0) {
    for (const Index i : instances) end(i, Status::TimeLimit);
    return;
  }
  const Subset subset(equivalent_->program, instances);
  Settings settings = settings_;
  settings.tolerance = std::min(of_quadratic, settings_.tolerance);
  settings.max_iterations = Settings{}.max_iterations;
  settings.method = Method::Auto;
  settings.finish = true;
  settings.time_limit = std::max(seconds_left(), 1e-9);
  settings.log = {};
  PointBlock start;
  if (!last_instances.empty()) {
    start = {.x = point.x(Eigen::all, instances),
             .y = point.y(Eigen::all, instances),
             .z = point.z(Eigen::all, instances),
             .z_box = point.z_box(Eigen::all, instances)};
  } else if (initial_.x.size() > 0) {
    start = {.x = initial_.x(Eigen::all, instances),
             .y = initial_.y(Eigen::all, instances),
             .z = initial_.z(Eigen::all, instances),
             .z_box = initial_.z_box(Eigen::all, instances)};
  }
  last = solve(subset.program, settings, start);
  last_instances = instances;
  for (std::size_t k = 0; k < instances.size(); ++k) use_step(instances[k], static_cast<Index>(k), last);
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
  while (engines_.size() < at(chunks))
    engines_.emplace_back(n_, m_, p_).limit_time(begin_, settings_.time_limit);
  parallel_for(chunks, threads_for(settings_.num_threads, count * n_ * (m_ + p_)), [&](Index chunk) {
    for (Index k = chunk; k < count; k += chunks) {
      const Index i = instances[at(k)];
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

void Newton::take_multipliers(Index i, Index k, const PointBlock& solved) {
  point.y.col(i) = solved.y.col(k);
  point.z.col(i) = solved.z.col(k);
  if (solved.z_box.rows() > 0)
    point.z_box.col(i) = solved.z_box.col(k);
  else  // there are no bounds
    point.z_box.col(i).setZero();
}

/// Towards the solution of the quadratic program, as far as the domain allows.
void Newton::use_step(Index i, Index k, const BatchSolution& solved) {
  Progress& now = progress_[at(i)];
  const Status found = solved.status[at(k)];
  const bool proof = found == Status::PrimalInfeasible;
  if (proof || !solved.point.x.col(k).allFinite()) {
    if (proof) {
      point.x.col(i).setConstant(nan);
      take_multipliers(i, k, solved.point);
      value[i] = infinity;
    }
    end(i, found);
    return;
  }
  if (found == Status::DualInfeasible) {
    lean(i, solved.point.x.col(k));
    return;
  }
  // A bound may be the end of the domain: rounding must not lead beyond it.
  const VectorsView bounds = instance_of(equivalent_->program, i).vectors();
  Vector x = solved.point.x.col(k);
  if (bounds.lb.size() > 0) x = x.cwiseMax(bounds.lb);
  if (bounds.ub.size() > 0) x = x.cwiseMin(bounds.ub);
  d_.col(i) = x - point.x.col(i);
  take_multipliers(i, k, solved.point);
  const double largest = std::max({norm(point.y.col(i)), norm(point.z.col(i)), norm(point.z_box.col(i))});
  // Multipliers far from the solution may be enormous; once x is feasible, nu need not remember them.
  now.nu = now.violation <= 10 * now.rounding ? 1.1 * largest : std::max(now.nu, 1.1 * largest);
  now.slope = std::min(0.0, gradient_.col(i).dot(d_.col(i)) - now.nu * now.violation);
  now.length = 1;
  now.halvings = 0;
  for (const InstanceTerm& term : evaluate_.terms(i)) {
    InstanceTerm::Workspace workspace;
    now.length = term.largest_step(point.x.col(i), d_.col(i), now.length, workspace);
  }
  if (program_.largest_step)
    now.length = std::min(now.length, program_.largest_step(i, point.x.col(i), d_.col(i)));
  diagonal_.col(i) = Eigen::Map<const DenseMatrix>(equivalent_->hessian(i), n_, n_).diagonal();
  trial_.col(i) = point.x.col(i) + now.length * d_.col(i);
  if (now.length == 1) trial_.col(i) = x;
  now.state = State::Trial;
}

}  // namespace altdiff::detail
