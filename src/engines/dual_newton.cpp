#include "engines/dual_newton.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/norms.hpp"
#include "linalg/pieces.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double armijo = 1e-4;
constexpr double rounding_of_dual = 1e-14;  // relative to its parts
constexpr double exact = 4e-15;             // violation of the constraints that a step could hardly lower
constexpr double good = 1e-4;               // and one that may be the rounding of the multipliers
constexpr double few_digits = 1e-10;
constexpr double last_digits = 1e-14;
constexpr double roughly = 1e-2;  // and one that is enough on the way to another temperature
constexpr int most_steps_at_once = 15;
constexpr int most_steps_here = 60;
constexpr int rough_steps = 2;  // at first
constexpr int most_steps_cooling = 12;
constexpr int most_coolings = 100;
constexpr double fastest = 8;      // fall of the temperature at a time
constexpr double slowest = 1.005;  // below this it leads nowhere
constexpr int most_halvings = 30;
constexpr double first_damping = 1e-3;  // of M, relative to what it is with no bounds
constexpr double most_damping = 1e9;

}  // namespace

DualNewton::DualNewton(Index n, Index m, Index p)
    : x(n),
      y(p),
      z(m),
      z_box(n),
      D(n),
      side(n),
      n_(n),
      m_(m),
      p_(p),
      scaled_(padded(m + p), n + 1),  // the last column is only room
      M_(padded(m + p), m + p + 1),
      factor_(padded(m + p), m + p + 1) {
  const Index k = m + p;
  for (Vector* v : {&weight_, &offset_, &lower_, &upper_, &pull_, &root_, &factor_D_}) v->resize(n);
  step_.resize(k);
  row_sizes_.setZero(k);
  right_.resize(k);
  kept_.resize(k);
  held_.resize(at(k));
  rows.reserve(at(k));
  row_data_.reserve(at(k));
  set_.reserve(at(k));
  factor_rows_.reserve(at(k));
  next_y_.resize(p);
  next_z_.resize(m);
  for (Trial* trial : {&here_, &there_}) {
    trial->x.resize(n);
    trial->slope.resize(n);
    trial->first.resize(n);
    trial->second.resize(n);
    trial->Ax.resize(p);
    trial->Gx.resize(m);
  }
}

void DualNewton::load(const SeparableProgram& program) {
  program_ = &program;
  const VectorsView vectors = program.constraints.vectors();
  offset_.setZero();
  set_temperature(1);
  if (program.offset != nullptr) offset_ = Eigen::Map<const Vector>(program.offset, n_);
  lower_.setConstant(-infinity);
  upper_.setConstant(infinity);
  if (vectors.lb.size() > 0) lower_ = vectors.lb;
  if (vectors.ub.size() > 0) upper_ = vectors.ub;
}

bool DualNewton::run(const SeparableProgram& program, const VectorView& first_y, const VectorView& first_z) {
  load(program);
  steps = 0;
  factor_rows_.clear();
  y = first_y;
  z = first_z.cwiseMax(0.0);
  evaluate(y, z, here_);
  if (!climb(exact, most_steps_at_once) && !cool()) return false;
  finish();
  return true;
}

bool DualNewton::in_time() const { return may_go_on(multiplications(n_, m_ + p_ + count(), count() + 1)); }

void DualNewton::set_temperature(double temperature) {
  temperature_ = temperature;
  weight_.setConstant(temperature);
  if (program_->weight != nullptr) weight_ = temperature * Eigen::Map<const Vector>(program_->weight, n_);
}

/// From a temperature at which all is smooth down to one.
bool DualNewton::cool() {
  set_temperature(1);
  double temperature = 1;
  for (Index j = 0; j < n_; ++j) temperature = std::max(temperature, std::abs(program_->q[j]) / weight_[j]);
  set_temperature(temperature);
  y.setZero();
  z.setZero();
  evaluate(y, z, here_);
  if (!climb(roughly, most_steps_here)) return false;
  double factor = fastest;
  for (int tries = 0; temperature > 1 && tries < most_coolings && in_time(); ++tries) {
    known_y_ = y;
    known_z_ = z;
    foresee();
    const double next = std::max(1.0, temperature / factor);
    set_temperature(next);
    y = known_y_ + (next - temperature) * drift_y_;
    z = (known_z_ + (next - temperature) * drift_z_).cwiseMax(0.0);
    evaluate(y, z, here_);
    evaluate(known_y_, known_z_, there_);
    if (!(here_.value >= there_.value)) {  // a prediction by nearly dependent rows may be anything
      y = known_y_;
      z = known_z_;
      std::swap(here_, there_);
    }
    if (climb(next > 1 ? roughly : exact, most_steps_cooling)) {
      temperature = next;
      factor = std::min(fastest, factor * factor);
    } else {
      if (factor < slowest) return false;
      factor = std::sqrt(factor);
      y = known_y_;
      z = known_z_;
      set_temperature(temperature);
      evaluate(y, z, here_);
    }
  }
  return temperature == 1;
}

/// How the multipliers change with the temperature: M dlambda = -C_S D (w phi'(x)) on the rows that hold.
/// (N8)
void DualNewton::foresee() {
  hold_active_rows();
  set_curvature();
  form_M();
  drift_y_.setZero(p_);
  drift_z_.setZero(m_);
  for (Index j = 0; j < n_; ++j) pull_[j] = D[j] > 0 ? -D[j] * here_.first[j] * weight_[j] / temperature_ : 0;
  for (Index i = 0; i < count(); ++i) right_[i] = row_of_C(rows[at(i)]).dot(pull_);
  hold_all();
  if (!solve_with_M()) return;
  for (Index i = 0; i < count(); ++i)
    (rows[at(i)] < p_ ? drift_y_[rows[at(i)]] : drift_z_[rows[at(i)] - p_]) = step_[i];
}

/// (N4), and the dual there.
void DualNewton::evaluate(const Vector& y_at, const Vector& z_at, Trial& trial) {
  const MatricesView& data = program_->constraints.matrices;
  const VectorsView vectors = program_->constraints.vectors();
  pull_ = program_->q;
  multiply(Op::None, Op::None, 1, data.A_rows(), y_at, 1, pull_);
  multiply(Op::None, Op::None, 1, data.G_rows(), z_at, 1, pull_);
  trial.slope = -pull_.cwiseQuotient(weight_);
  program_->phi.inverse(trial.slope.array(), t_);
  trial.x = (offset_ + t_.matrix()).cwiseMax(lower_).cwiseMin(upper_);  // (N4)
  set_derivatives(trial);
  value_ *= weight_.array();
  const double linear = pull_.dot(trial.x);
  const double limits = y_at.dot(vectors.b) + limit_product(z_at, vectors.h);
  trial.value = value_.sum() + linear - limits;
  trial.size = value_.abs().sum() + pull_.cwiseProduct(trial.x).cwiseAbs().sum() + std::abs(limits);
  trial.Ax = -vectors.b;
  trial.Gx = -vectors.h;
  multiply(Op::Transpose, Op::None, 1, data.A_rows(), trial.x, 1, trial.Ax);
  multiply(Op::Transpose, Op::None, 1, data.G_rows(), trial.x, 1, trial.Gx);
}

void DualNewton::set_derivatives(Trial& trial) {
  t_ = (trial.x - offset_).array();
  program_->phi.evaluate(t_, value_, trial.first, trial.second);
}

/// z'h, where a row without a limit has no multiplier.
double DualNewton::limit_product(const Vector& multipliers, const VectorView& limits) {
  double sum = 0;
  for (Index i = 0; i < limits.size(); ++i)
    if (multipliers[i] > 0) sum += multipliers[i] * limits[i];
  return sum;
}

/// How far the constraints, and rows with a multiplier, are from holding; relative as (R1).
double DualNewton::violation(const Trial& trial) const {
  const VectorsView vectors = program_->constraints.vectors();
  double worst = norm(trial.Ax);
  double scale = std::max({1.0, norm(vectors.b), norm(trial.x)});
  for (Index i = 0; i < m_; ++i) {
    const double value = trial.Gx[i];
    if (z[i] > 0 || value > 0 || std::isnan(value)) worst = std::max(std::abs(value), worst);
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value + vectors.h[i]));
  }
  return worst / scale;
}

/// A violation that the last digits of the multipliers may cause.
double DualNewton::of_rounding() const {
  const double size = norm(program_->q) + norm(y) + norm(z);
  return std::min(good, few_digits + last_digits * size / weight_.minCoeff());
}

bool DualNewton::climb(double accuracy, int most_steps) {
  double last = infinity;
  damping_ = 0;
  for (int taken = 0;; ++taken, ++steps) {
    const double error = violation(here_);
    if (error <= accuracy || (error <= of_rounding() && error >= 0.5 * last)) return true;
    const bool enough = taken >= (damping_ > 0 ? most_steps_here : most_steps);
    if (enough || !std::isfinite(here_.value) || !in_time()) return false;
    last = error;
    const double length = advance(taken < rough_steps);
    if (length == 0 && error <= of_rounding()) return true;
    if (!damp(length)) return false;
  }
}

/// One step; its length, zero if there is none.
double DualNewton::advance(bool rough) {
  const bool again = !factor_rows_.empty();
  const double length = find_step(rough) ? climb_along_step() : 0;
  if (length > 0 || !again) return length;
  factor_rows_.clear();  // the step may have been by an old factor
  return find_step(rough) ? climb_along_step() : 0;
}

double DualNewton::climb_along_step() {
  double slope = 0;
  for (Index i = 0; i < count(); ++i) slope += step_[i] * row_value(here_, rows[at(i)]);
  return slope >= 0 ? search(slope) : 0;
}

/// Where bounds hold all but a few variables, M is singular, and no multiple of its step need climb: after a
/// step that failed, M + mu diag(C W^-1 C') has one that does, for some mu.                             (N9)
bool DualNewton::damp(double length) {
  if (length == 0) {
    if (damping_ == 0)
      for (Index i = 0; i < p_ + m_; ++i) row_sizes_[i] = row_of_C(i).cwiseAbs2().dot(weight_.cwiseInverse());
    damping_ = damping_ == 0 ? first_damping : 100 * damping_;
  } else if (length == 1) {
    damping_ *= 0.1;
  } else if (length < 0.1) {
    damping_ *= 4;
  }
  return damping_ < most_damping;
}

/// Goes along the step, as far as the dual rises.
double DualNewton::search(double slope) {
  const double noise = rounding_of_dual * here_.size;
  double length = 1;
  for (int halvings = 0; halvings < most_halvings; ++halvings) {
    next_y_ = y;
    next_z_ = z;
    for (Index i = 0; i < count(); ++i) {
      const Index row = rows[at(i)];
      if (row < p_)
        next_y_[row] += length * step_[i];
      else
        next_z_[row - p_] = std::max(0.0, next_z_[row - p_] + length * step_[i]);
    }
    evaluate(next_y_, next_z_, there_);
    if (there_.value >= here_.value + armijo * length * slope - noise) {
      y.swap(next_y_);
      z.swap(next_z_);
      std::swap(here_, there_);
      return length;
    }
    length *= 0.5;
  }
  return 0;
}

}  // namespace altdiff::detail
