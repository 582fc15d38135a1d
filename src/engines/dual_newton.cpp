#include "engines/dual_newton.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/dense.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double armijo = 1e-4;
constexpr double rounding_of_dual = 1e-14;  // relative to its parts
constexpr double exact = 4e-15;             // violation of the constraints that a step could hardly lower
constexpr double good = 1e-10;              // and one that may be rounding all the same
constexpr int most_steps_here = 40;
constexpr int most_halvings = 30;
constexpr int most_changes = 12;            // of the set within a step
constexpr double hardly_there = 1e-290;     // a number that may have been rounded to zero
constexpr double nearly_dependent = 1e-11;  // a pivot of M relative to its diagonal

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace

DualNewton::DualNewton(Index n, Index m, Index p)
    : x(n), y(p), z(m), z_box(n), D(n), side(n), n_(n), m_(m), p_(p) {
  const Index k = m + p;
  const Index stride = padded(k);
  C_.resize(stride, n + 1);  // the last column is only room
  scaled_.resize(stride, n + 1);
  M_.resize(stride, k + 1);
  factor_.resize(stride, k + 1);
  for (Vector* v : {&weight_, &offset_, &lower_, &upper_, &pull_, &root_}) v->resize(n);
  step_.resize(k);
  right_.resize(k);
  held_.resize(at(k));
  rows.reserve(at(k));
  set_.reserve(at(k));
  next_y_.resize(p);
  next_z_.resize(m);
  for (Trial* trial : {&here_, &there_}) {
    trial->x.resize(n);
    trial->slope.resize(n);
    trial->Ax.resize(p);
    trial->Gx.resize(m);
  }
}

void DualNewton::load(const SeparableProgram& program) {
  program_ = &program;
  const MatricesView& data = program.constraints.matrices;
  const VectorsView vectors = program.constraints.vectors();
  const Index stride = C_.rows();
  if (p_ > 0) small_transpose(data.A, n_, n_, p_, C_.data(), stride);
  if (m_ > 0) small_transpose(data.G, n_, n_, m_, C_.data() + p_, stride);
  weight_.setOnes();
  offset_.setZero();
  if (program.weight != nullptr) weight_ = Eigen::Map<const Vector>(program.weight, n_);
  if (program.offset != nullptr) offset_ = Eigen::Map<const Vector>(program.offset, n_);
  lower_.setConstant(-infinity);
  upper_.setConstant(infinity);
  if (vectors.lb.size() > 0) lower_ = vectors.lb;
  if (vectors.ub.size() > 0) upper_ = vectors.ub;
}

bool DualNewton::run(const SeparableProgram& program, const VectorView& first_y, const VectorView& first_z) {
  load(program);
  steps = 0;
  y = first_y;
  z = first_z.cwiseMax(0.0);
  evaluate(y, z, here_);
  if (!climb()) return false;
  finish();
  return true;
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
  t_ = (trial.x - offset_).array();
  program_->phi.evaluate(t_, value_, first_, second_);
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

/// Rows that hold, or should.
void DualNewton::choose_rows() {
  rows.clear();
  for (Index i = 0; i < p_; ++i) rows.push_back(i);
  for (Index i = 0; i < m_; ++i)
    if (z[i] > 0 || here_.Gx[i] > 0) rows.push_back(p_ + i);
}

void DualNewton::set_curvature() {
  t_ = (here_.x - offset_).array();
  program_->phi.evaluate(t_, value_, first_, second_);
  for (Index j = 0; j < n_; ++j) {
    const bool inside = here_.x[j] > lower_[j] && here_.x[j] < upper_[j];
    D[j] = inside ? 1 / (weight_[j] * second_[j]) : 0;
    root_[j] = std::sqrt(D[j]);
  }
}

/// M on `rows`.                                                                                         (N5)
void DualNewton::form_M() {
  const Index k = count();
  for (Index j = 0; j < n_; ++j) {
    const double* source = C_.data() + j * C_.rows();
    double* target = scaled_.data() + j * scaled_.rows();
    for (Index i = 0; i < k; ++i) target[i] = source[rows[at(i)]] * root_[j];
  }
  gram(1, scaled_.topRows(k).leftCols(n_), 0, M_.topRows(k).leftCols(k), 1);
  symmetrise(M_.topRows(k).leftCols(k));
}

/// The multipliers of the rows in the set change so that these rows hold; those of the others vanish.
bool DualNewton::solve_on_set() {
  set_.clear();
  for (Index i = 0; i < count(); ++i)
    if (held_[at(i)] != 0) set_.push_back(i);
  const auto s = static_cast<Index>(set_.size());
  for (Index i = 0; i < count(); ++i) step_[i] = held_[at(i)] != 0 ? 0 : -multiplier(rows[at(i)]);
  for (Index a = 0; a < s; ++a) {
    const Index i = set_[at(a)];
    double value = row_value(here_, rows[at(i)]);
    for (Index j = 0; j < count(); ++j)
      if (step_[j] != 0) value -= M_(i, j) * step_[j];
    right_[a] = value;
  }
  double more = 1e-15;
  for (int attempt = 0; attempt < 6; ++attempt, more *= 100) {
    for (Index b = 0; b < s; ++b) {
      const double* column = M_.data() + set_[at(b)] * M_.rows();
      for (Index a = b; a < s; ++a) factor_(a, b) = column[set_[at(a)]];
      factor_(b, b) *= 1 + more;
    }
    if (s > 0 && !partial_cholesky(factor_.topLeftCorner(s, s), 1)) continue;
    triangular_solve(Op::None, factor_.topLeftCorner(s, s), right_.head(s));
    triangular_solve(Op::Transpose, factor_.topLeftCorner(s, s), right_.head(s));
    for (Index a = 0; a < s; ++a) step_[set_[at(a)]] = right_[a];
    return right_.head(s).allFinite();
  }
  return false;
}

/// Rows whose multiplier would be negative leave, rows that would be violated enter.
bool DualNewton::change_set() {
  bool changed = false;
  for (Index i = 0; i < count(); ++i) {
    const Index row = rows[at(i)];
    if (row < p_) continue;
    if (held_[at(i)] != 0) {
      if (z[row - p_] + step_[i] >= 0) continue;
      held_[at(i)] = 0;
    } else {
      const double value = row_value(here_, row) - M_.col(i).head(count()).dot(step_.head(count()));
      if (value <= 0) continue;
      held_[at(i)] = 1;
    }
    changed = true;
  }
  return changed;
}

bool DualNewton::find_step() {
  choose_rows();
  set_curvature();
  form_M();
  std::fill_n(held_.begin(), rows.size(), std::uint8_t{1});
  for (int change = 0; change < most_changes; ++change) {
    if (!solve_on_set()) return false;
    if (!change_set()) break;
  }
  // Where the set did not settle, no multiplier may fall below zero all the same.
  for (Index i = 0; i < count(); ++i)
    if (rows[at(i)] >= p_) step_[i] = std::max(step_[i], -multiplier(rows[at(i)]));
  return true;
}

bool DualNewton::climb() {
  double last = infinity;
  for (;; ++steps) {
    const double error = violation(here_);
    if (error <= exact || (error <= good && error >= 0.5 * last)) return true;
    if (steps >= most_steps_here || !std::isfinite(here_.value)) return false;
    last = error;
    if (!find_step()) return false;
    double slope = 0;
    for (Index i = 0; i < count(); ++i) slope += step_[i] * row_value(here_, rows[at(i)]);
    if (!(slope >= 0) || !search(slope)) return error <= good;
  }
}

/// Goes along the step, as far as the dual rises.
bool DualNewton::search(double slope) {
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
      return true;
    }
    length *= 0.5;
  }
  return false;
}

/// The solution in the user's terms, and what the check says of it.
void DualNewton::finish() {
  const MatricesView& data = program_->constraints.matrices;
  VectorsView vectors = program_->constraints.vectors();
  x = here_.x;
  rows.clear();
  for (Index i = 0; i < p_; ++i) rows.push_back(i);
  for (Index i = 0; i < m_; ++i)
    if (z[i] > 0) rows.push_back(p_ + i);
  set_curvature();
  t_ = (x - offset_).array();
  program_->phi.evaluate(t_, value_, first_, second_);
  objective = value_.matrix().dot(weight_) + program_->q.dot(x);
  Vector Aty = Vector::Zero(n_);
  Vector Gtz = Vector::Zero(n_);
  multiply(Op::None, Op::None, 1, data.A_rows(), y, 0, Aty);
  multiply(Op::None, Op::None, 1, data.G_rows(), z, 0, Gtz);
  Vector gradient = program_->q + weight_.cwiseProduct(first_.matrix());
  double largest = 0;
  for (Index j = 0; j < n_; ++j) {
    const bool at_lower = x[j] <= lower_[j];
    const bool at_upper = x[j] >= upper_[j];
    // Of a number that was rounded to zero the slope is not that of the number meant.
    const bool rounded = !at_lower && !at_upper && program_->phi.lower() == 0 && t_[j] < hardly_there;
    if (rounded) gradient[j] = -(Aty[j] + Gtz[j]);
    z_box[j] = at_lower || at_upper ? -(gradient[j] + Aty[j] + Gtz[j]) : 0;
    side[j] = (at_upper ? 1 : 0) - (at_lower ? 1 : 0);
    if (at_lower && at_upper) side[j] = z_box[j] < 0 ? -1 : 1;
    if (D[j] > 0 && std::isfinite(1 / D[j])) largest = std::max(largest, std::min(1.0, 1 / D[j]));
  }
  const Vector Px = gradient - program_->q;
  const Vector Ax = here_.Ax + vectors.b;
  Vector Gx = here_.Gx + vectors.h;
  multiply(Op::Transpose, Op::None, 1, data.G_rows(), x, 0, Gx);  // h may be infinite
  const VectorsView with_q{
      .q = program_->q, .b = vectors.b, .h = vectors.h, .lb = vectors.lb, .ub = vectors.ub};
  residuals = relative_residuals(with_q, {.x = x, .y = y, .z = z, .z_box = z_box},
                                 {.Px = Px, .Ax = Ax, .Gx = Gx, .Aty = Aty, .Gtz = Gtz}, largest);
  measure_margin();
}

/// (G1), in the units of the constraint space.
void DualNewton::measure_margin() {
  double size = 0;
  for (Index j = 0; j < n_; ++j)
    if (D[j] > 0) size += x[j] * x[j] / D[j];
  size = std::isfinite(size) && size > 0 ? std::sqrt(size) : 1;
  margin = infinity;
  t_ = Eigen::ArrayXd::Zero(m_ + p_);
  for (Index j = 0; j < n_; ++j) t_ += D[j] * C_.col(j).head(m_ + p_).array().square();
  const auto note = [&](double slack, double multiplier, double length) {
    if (!std::isfinite(slack) || !(length > 0)) return;
    margin = std::min(margin, std::max(slack / length, multiplier * length) / size);
  };
  for (Index i = 0; i < m_; ++i) note(-here_.Gx[i], z[i], std::sqrt(t_[p_ + i]));
  for (Index j = 0; j < n_; ++j) {
    const double curvature = second_[j] * weight_[j];
    const double length = std::isfinite(curvature) ? 1 / std::sqrt(curvature) : 0;
    if (std::isfinite(lower_[j])) note(x[j] - lower_[j], std::max(0.0, -z_box[j]), length);
    if (std::isfinite(upper_[j])) note(upper_[j] - x[j], std::max(0.0, z_box[j]), length);
  }
}

Vector DualNewton::bound_curvature() const {
  Vector H = Vector::Zero(n_);
  for (Index j = 0; j < n_; ++j)
    if (side[j] != 0 && std::isfinite(second_[j])) H[j] = weight_[j] * second_[j];
  return H;
}

bool DualNewton::factorise(double more) {
  const Index k = count();
  form_M();
  for (Index b = 0; b < k; ++b) {
    std::copy_n(&M_(b, b), k - b, &factor_(b, b));
    factor_(b, b) *= 1 + more;
  }
  if (k > 0 && !partial_cholesky(factor_.topLeftCorner(k, k), 1)) return false;
  for (Index i = 0; i < k; ++i)
    if (!(factor_(i, i) * factor_(i, i) > (more > 0 ? 0 : nearly_dependent) * M_(i, i))) return false;
  return true;
}

}  // namespace altdiff::detail
