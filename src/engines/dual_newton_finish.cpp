#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/dual_newton.hpp"
#include "linalg/at.hpp"
#include "linalg/dense.hpp"

// What follows the search: corrections, the check, the margin, and the factor for derivatives.

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double exact = 4e-15;  // violation of the constraints that a step could hardly lower
constexpr int most_corrections = 4;
constexpr double one_rounding = std::numeric_limits<double>::epsilon();  // to the next number on either side
constexpr double hardly_there = 1e-290;  // a number that may have been rounded to zero

}  // namespace

/// Where w is small, x depends on the last digits of the multipliers: x itself takes the step (N5).
void DualNewton::correct() {
  const MatricesView& data = program_->constraints.matrices;
  const VectorsView vectors = program_->constraints.vectors();
  hold_active_rows();
  for (int round = 0; round < most_corrections && violation(here_) > exact; ++round) {
    set_curvature();
    if (!step_by_last_factor() && !step_on_rows()) return;
    pull_.setZero();
    for (Index i = 0; i < count(); ++i) {
      const Index row = rows[at(i)];
      if (row < p_)
        y[row] += step_[i];
      else
        z[row - p_] = std::max(0.0, z[row - p_] + step_[i]);
      pull_ += step_[i] * row_of_C(row);
    }
    there_.x = (here_.x - D.cwiseProduct(pull_)).cwiseMax(lower_).cwiseMin(upper_);
    t_ = (there_.x - offset_).array();
    if (!(t_ >= program_->phi.lower()).all() || !(t_ <= program_->phi.upper()).all()) return;
    here_.x.swap(there_.x);
    set_derivatives(here_);
    here_.Ax = -vectors.b;
    here_.Gx = -vectors.h;
    multiply(Op::Transpose, Op::None, 1, data.A_rows(), here_.x, 1, here_.Ax);
    multiply(Op::Transpose, Op::None, 1, data.G_rows(), here_.x, 1, here_.Gx);
  }
}

void DualNewton::hold_active_rows() {
  rows.clear();
  for (Index i = 0; i < p_; ++i) rows.push_back(i);
  for (Index i = 0; i < m_; ++i)
    if (z[i] > 0) rows.push_back(p_ + i);
}

/// The solution in the user's terms, and what the check says of it.
void DualNewton::finish() {
  const MatricesView& data = program_->constraints.matrices;
  const VectorsView vectors = program_->constraints.vectors();
  correct();
  x = here_.x;
  set_derivatives(here_);
  set_curvature();
  if (program_->phi.closed())  // at the ends of the domain
    here_.first = here_.first.max(-Phi::end_slope).min(Phi::end_slope);
  objective = value_.matrix().dot(weight_) + program_->q.dot(x);
  Vector Aty = Vector::Zero(n_);
  Vector Gtz = Vector::Zero(n_);
  multiply(Op::None, Op::None, 1, data.A_rows(), y, 0, Aty);
  multiply(Op::None, Op::None, 1, data.G_rows(), z, 0, Gtz);
  Vector gradient = program_->q + weight_.cwiseProduct(here_.first.matrix());
  double largest = 0;
  for (Index j = 0; j < n_; ++j) {
    const bool at_lower = x[j] <= lower_[j];
    const bool at_upper = x[j] >= upper_[j];
    const double residual = gradient[j] + Aty[j] + Gtz[j];
    // What rounding x does to its slope is no residual; near the end of the domain that may be anything.
    const double of_rounding =
        one_rounding * (std::abs(x[j]) + std::abs(offset_[j])) * weight_[j] * here_.second[j];
    const bool rounded =
        std::abs(residual) <= of_rounding || (program_->phi.lower() == 0 && t_[j] < hardly_there);
    if (!at_lower && !at_upper && rounded) gradient[j] = -(Aty[j] + Gtz[j]);
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
  const auto note = [&](double slack, double multiplier, double length) {
    if (!std::isfinite(slack) || !(length > 0)) return;
    margin = std::min(margin, std::max({0.0, slack / length, multiplier * length}) / size);
  };
  for (Index i = 0; i < m_; ++i) note(-here_.Gx[i], z[i], std::sqrt(row_of_C(p_ + i).cwiseAbs2().dot(D)));
  for (Index j = 0; j < n_; ++j) {
    const double curvature = here_.second[j] * weight_[j];
    const double length = std::isfinite(curvature) ? 1 / std::sqrt(curvature) : 0;
    if (lower_[j] == upper_[j]) continue;  // an equality
    if (std::isfinite(lower_[j])) note(x[j] - lower_[j], std::max(0.0, -z_box[j]), length);
    if (std::isfinite(upper_[j])) note(upper_[j] - x[j], std::max(0.0, z_box[j]), length);
  }
}

Vector DualNewton::bound_curvature() const {
  Vector H = Vector::Zero(n_);
  for (Index j = 0; j < n_; ++j)
    if (side[j] != 0 && std::isfinite(here_.second[j])) H[j] = weight_[j] * here_.second[j];
  return H;
}

}  // namespace altdiff::detail
