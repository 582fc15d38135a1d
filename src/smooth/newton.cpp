#include "smooth/newton.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "batch/grouping.hpp"
#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/norms.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/pieces.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double armijo = 1e-4;
constexpr double rounding_of_f = 1e-14;  // of f, relative to its parts
constexpr double rounding_of_x = 1e-13;
constexpr double clearly_below = 1e-9;  // relative to what is compared
constexpr double of_one_row = 1e-15;    // of a row of the constraints
constexpr double same_hessian = 1e-9;   // relative change that hardly matters to derivatives
constexpr double exact = 1e-13;         // a residual that a step could hardly lower
constexpr double some_descent = 1e-9;   // of f, relative to its parts
constexpr int most_steps = 2000;
constexpr std::int64_t many_steps = 25;  // after which a minimum is doubtful, and kinks are rounded off
constexpr int most_halvings = 100;
constexpr double far_away = 1e12;       // a point that may be on its way to infinity
constexpr double lost_for_ever = 1e60;  // and one that certainly is
constexpr int most_steps_hot = 40;      // at a temperature
constexpr double roughly = 1e-2;        // a residual that is small enough there
constexpr int patience = 4;             // steps without a smaller residual, once it is below tolerance
constexpr int long_patience = 60;       // and before
constexpr Index most_chunks = 32;

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
      at_solution_(at(size_)),
      bounded_(bounded_variables(program.constraints)),
      all_diagonal_((!program.evaluate || program.elementwise) && size_ > 0 &&
                    std::ranges::all_of(evaluator.terms(0), &InstanceTerm::diagonal)) {
  equivalent_->allocate();
  for (Index chunk = 0; chunk < std::min(most_chunks, size_); ++chunk) products_.emplace_back(n_, m_, p_, 1);
  point = {.x = DenseMatrix::Constant(n_, size_, nan),
           .y = DenseMatrix::Constant(p_, size_, nan),
           .z = DenseMatrix::Constant(m_, size_, nan),
           .z_box = DenseMatrix::Constant(n_, size_, nan)};
}

void Newton::find(const std::vector<Index>& among, std::initializer_list<State> states,
                  std::vector<Index>& found) const {
  found.clear();
  for (const Index i : among)
    if (std::ranges::find(states, progress_[at(i)].state) != states.end()) found.push_back(i);
}

void Newton::run(const std::vector<Index>& wanted, const DenseMatrix& start) {
  start_ = start;
  for (const Index i : wanted) {
    progress_[at(i)] = {.state = State::First, .error = infinity, .best = infinity};
    trial_.col(i) = start.col(i);
    const bool known =
        initial_.x.size() > 0 && initial_.y.col(i).allFinite() && initial_.z.col(i).allFinite();
    point.y.col(i).setZero();
    point.z.col(i).setZero();
    point.z_box.col(i).setZero();
    if (!known) continue;
    point.y.col(i) = initial_.y.col(i);
    point.z.col(i) = initial_.z.col(i).cwiseMax(0.0);
    if (initial_.z_box.size() > 0) point.z_box.col(i) = initial_.z_box.col(i);
  }
  proceed(wanted);
}

void Newton::proceed(const std::vector<Index>& wanted) {
  std::vector<Index> waiting = wanted;
  while (!waiting.empty()) {
    if (out_of_time() ||
        !evaluate_(waiting, trial_,
                   {.value = trial_value_, .gradient = gradient_, .hessians = equivalent_->hessians()})) {
      for (const Index i : waiting) end(i, Status::TimeLimit);
      return;
    }
    const auto count = static_cast<Index>(waiting.size());
    const auto chunks = std::min(count, static_cast<Index>(products_.size()));
    parallel_for(chunks, threads_for(settings_.num_threads, count * n_ * (n_ + m_ + p_)), [&](Index chunk) {
      for (Index k = chunk; k < count; k += chunks) {
        check_interrupt(multiplications(n_, n_ + m_ + p_, 1));
        judge(waiting[at(k)], products_[at(chunk)]);
      }
    });
    report(waiting);
    for (;;) {  // most have a step after the first
      find(wanted, {State::Stepping}, stepping_);
      dismiss(stepping_);
      find(wanted, {State::Stepping}, stepping_);
      if (stepping_.empty()) break;
      step(stepping_);
    }
    find(wanted, {State::Trial, State::First}, waiting);
  }
}

/// A line for a round: of the instance that is furthest from its end.
void Newton::report(const std::vector<Index>& instances) {
  if (!settings_.log) return;
  if (std::ranges::all_of(instances, [&](Index i) { return progress_[at(i)].state == State::Trial; })) return;
  ++rounds_;
  const auto error = [&](Index i) {
    return std::isnan(progress_[at(i)].error) ? infinity : progress_[at(i)].error;
  };
  const Index i = *std::ranges::max_element(instances, {}, error);
  const Progress& now = progress_[at(i)];
  const Residuals& found = residuals[at(i)];
  if (rounds_ == 1)
    settings_.log(
        " iter  left    instance       objective    primal      dual       gap  step      diagonal");
  std::array<char, 160> line{};
  (void)std::snprintf(line.data(), line.size(),
                      "%5d  %4lld  %10lld  %14.7e  %8.1e  %8.1e  %8.1e  %8.1e  %8.1e", rounds_,
                      static_cast<long long>(instances.size()), static_cast<long long>(i), now.value,
                      found.primal, found.dual, found.gap, now.length, now.sigma);
  settings_.log(line.data());
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

/// The diagonal of M'diag(w)M has whatever in w is not finite; of a function of the user's, all is looked at.
bool Newton::finite_hessian(Index i) const {
  if (program_.evaluate) return all_finite(equivalent_->hessian(i), n_ * n_);
  return Eigen::Map<const DenseMatrix>(equivalent_->hessian(i), n_, n_).diagonal().allFinite();
}

/// f is known at the trial point: go there, or try again closer by.
void Newton::judge(Index i, Products& products) {
  Progress& now = progress_[at(i)];
  const double f = trial_value_[i];
  if (!std::isfinite(f) || below_tangent(now, f) || !all_finite(gradient_.data() + i * n_, n_) ||
      !finite_hessian(i)) {
    if (now.state == State::First) {
      // Data were looked at before: it is the user's function that is not defined here, and says so.
      end(i, program_.evaluate ? Status::NumericalError : Status::InvalidData);
      if (program_.evaluate) point.x.col(i) = trial_.col(i);
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
  // Constraints are linear: a step that makes up for much of their violation is taken whatever f says, which
  // is another f there.
  if (now.state == State::Trial && now.violation > 10 * now.rounding && far <= 0.5 * now.violation)
    now.nu = std::max(now.nu, 2 * (f - now.value) / (now.violation - far));
  const double merit = f + now.nu * far;
  const double before = now.value + now.nu * now.violation;
  const double noise = now.noise + now.nu * now.rounding;
  // A step that is no more than rounding has only multipliers to bring.
  const auto hardly_moves = [&] {
    return now.length * now.distance <= rounding_of_x * (1 + norm(point.x.col(i)));
  };
  const bool descends = merit <= before + armijo * now.length * now.slope + noise ||
                        (-now.slope <= 1e3 * noise && merit <= before + 1e3 * noise) || hardly_moves();
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
  if (program_.evaluate)
    now.largest_hessian =
        std::max(now.largest_hessian, norm(Eigen::Map<const Vector>(equivalent_->hessian(i), n_ * n_)));
  if (first) return;
  accept(i, residuals_at(
                {.x = trial_.col(i), .y = point.y.col(i), .z = point.z.col(i), .z_box = point.z_box.col(i)},
                i, products));
}

/// No convex function is: one of the user's that is has left its domain without saying so. (N17)
bool Newton::below_tangent(const Progress& now, double f) const {
  if (!program_.evaluate || now.state != State::Trial) return false;
  const double tangent = now.value + now.length * now.rise;
  return f < tangent - clearly_below * (std::abs(now.value) + std::abs(now.length * now.rise));
}

void Newton::reject(Index i) {
  Progress& now = progress_[at(i)];
  now.careful = true;
  if (++now.halvings > most_halvings || now.length < 1e-300) {
    trial_.col(i) = point.x.col(i);
    if (hot(i)) {
      cool(i);
      return;
    }
    if (heat(i)) return;
    end(i, residuals[at(i)].below(settings_.tolerance) ? Status::Solved : Status::NumericalError);
    now.stale = true;
    return;
  }
  trial_.col(i) = point.x.col(i) + now.length * d_.col(i);
}

/// So far away that there is no way back. Of f's terms it will be asked first whether they fall for ever.
bool Newton::lost(Index i) {
  Progress& progress = progress_[at(i)];
  const double size = norm(point.x.col(i));
  progress.doubtful |= size > far_away && !progress.far;
  progress.far |= size > far_away;
  if (size > lost_for_ever) end(i, Status::NumericalError);
  return size > lost_for_ever;
}

/// At a new point: is it the solution?
void Newton::accept(Index i, const Residuals& now) {
  Progress& progress = progress_[at(i)];
  residuals[at(i)] = now;
  ++steps[at(i)];
  const bool whole = progress.length == 1;
  const bool leaned = progress.added > 0;
  adapt_diagonal(progress);
  const double error = now.worst();
  progress.error = error;
  const bool better = error < 0.5 * progress.best || (error > settings_.tolerance && progress.descended);
  progress.idle = better ? 0 : progress.idle + 1;
  progress.careful |= !better;
  progress.best = std::min(progress.best, error);
  if (lost(i)) return;
  if (hot(i)) {
    const auto hidden_here = [&](const InstanceTerm& term) {
      return term.hidden_by_rounding(point.x.col(i));
    };
    if (std::ranges::any_of(evaluate_.terms(i), hidden_here))
      end(i, Status::NumericalError);
    else if ((whole && error <= roughly) || steps[at(i)] - progress.since >= most_steps_hot ||
             progress.idle >= patience)
      cool(i);
    if (steps[at(i)] >= settings_.max_iterations) end(i, Status::MaxIterations);
    return;
  }
  const bool good = now.below(settings_.tolerance) && (whole || progress.idle >= 2 * patience);
  progress.change = good ? change_of_hessian(i) : infinity;
  const bool same = progress.change <= same_hessian;
  if (good && (same ? error <= exact || progress.idle >= 2
                    : progress.idle >= patience || (progress.careful && error <= exact))) {
    end(i, leaned && curves_down(i) ? Status::NonConvex : Status::Solved);
    if (!same || leaned) forget(i);  // the last quadratic program was another
    return;
  }
  const auto hidden = [&](const InstanceTerm& term) { return term.hidden_by_rounding(point.x.col(i)); };
  const bool stuck = progress.idle >= long_patience ||
                     (steps[at(i)] > many_steps && (error > roughly || steps[at(i)] > 2 * many_steps));
  if (stuck && heat(i)) return;
  if (progress.idle >= long_patience || std::ranges::any_of(evaluate_.terms(i), hidden)) {
    end(i, Status::NumericalError);
    return;
  }
  progress.doubtful |= steps[at(i)] == many_steps;
  if (steps[at(i)] >= std::min<std::int64_t>(settings_.max_iterations, most_steps))
    end(i, Status::MaxIterations);
}

void Newton::end(Index i, Status why) {
  if (hot(i)) show_f_itself(i);
  progress_[at(i)].state = State::Done;
  status[at(i)] = why;
  if (why != Status::InvalidData) return;
  for (DenseMatrix* part : {&point.x, &point.y, &point.z, &point.z_box}) part->col(i).setConstant(nan);
}

}  // namespace altdiff::detail
