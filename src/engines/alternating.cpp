#include "engines/alternating.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "linalg/norms.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr double sigma = 1e-6;           // keeps K regular where P is not
constexpr double equality_weight = 1e3;  // equalities take a larger penalty than inequalities
constexpr double relaxation = 1.6;       // over-relaxation of the round, (F8)
constexpr int check_every = 10;          // rounds; a check costs about as much as a round
constexpr double smallest_rho = 1e-8;
constexpr double largest_rho = 1e8;
constexpr double smallest_scale =
    1e-10;                            // of x, when its errors are weighed against those of the multipliers
constexpr double worth_adapting = 2;  // ratio of penalties below which a new factorisation does not pay

double inverse_or_zero(double r) { return r > 0 ? 1 / r : 0; }

Vector weights_of_bounds(const Vector& lb, const Vector& ub) {
  Vector weights(lb.size());
  for (Index j = 0; j < lb.size(); ++j) {
    const bool bounded = std::isfinite(lb[j]) || std::isfinite(ub[j]);
    weights[j] = bounded ? 1 : 0;
    if (lb[j] == ub[j]) weights[j] = equality_weight;
  }
  return weights;
}

}  // namespace

template <Matrix M>
AlternatingEngine<M>::AlternatingEngine(const QuadraticProgram<M>& qp, const Settings& settings,
                                        const Point& initial)
    : qp_(qp),
      settings_(settings),
      system_(qp.P, qp.A, qp.G),
      residuals_of_(qp),
      certificates_(qp, settings.tolerance),
      box_weight_(weights_of_bounds(qp.lb, qp.ub)),
      v_(initial),
      step_(initial),
      t_G_((qp.G * initial.x).cwiseMin(qp.h)),
      t_(initial.x.cwiseMax(qp.lb).cwiseMin(qp.ub)),
      previous_(initial),
      drift_(initial),
      workspace_(system_.workspace_size()),
      rho_(settings.rho) {
  R_ = {.sigma = sigma, .A = Vector(qp.p()), .G = Vector(qp.m()), .box = Vector(qp.n())};
  v_.z = v_.z.cwiseMax(0);
  set_penalty(rho_);
}

template <Matrix M>
void AlternatingEngine<M>::set_penalty(double rho) {
  rho_ = rho;
  R_.A.setConstant(equality_weight * rho);
  R_.G.setConstant(rho);
  R_.box = rho * box_weight_;
}

template <Matrix M>
bool AlternatingEngine<M>::factorise() {
  factorised_ = false;
  factorised_ = system_.factorise(qp_.P, qp_.A, qp_.G, R_);
  return factorised_;
}

template <Matrix M>
auto AlternatingEngine<M>::advance(double target) -> Outcome {
  try {
    return advance_in_time(target);
  } catch (const OutOfTime&) {
    return Outcome::TimeLimit;
  }
}

template <Matrix M>
auto AlternatingEngine<M>::advance_in_time(double target) -> Outcome {
  if (!factorised_ && !factorise()) return Outcome::NumericalError;
  while (rounds_ < settings_.max_iterations) {
    round();
    ++rounds_;
    if (rounds_ % check_every != 0 && rounds_ < settings_.max_iterations) continue;
    const Residuals residuals = residuals_of_(qp_, v_);
    report(residuals);
    if (!std::isfinite(residuals.worst())) return Outcome::NumericalError;
    if (std::max(residuals.primal, residuals.dual) <= target) return Outcome::Reached;
    note_drift();
    if (certificates_.proves_primal_infeasible(qp_, drift_)) return Outcome::PrimalInfeasible;
    if (certificates_.proves_dual_infeasible(qp_, drift_.x, certificates_.nearly_flat))
      return Outcome::DualInfeasible;
    if (out_of_time()) return Outcome::TimeLimit;
    if (rounds_ >= next_adaptation_ && !adapt_penalty(residuals)) return Outcome::NumericalError;
  }
  return Outcome::MaxIterations;
}

template <Matrix M>
void AlternatingEngine<M>::round() {
  update_x();
  update_z();
  update_box();
  update_y();
}

/// (F1) in the form (K2): the multipliers of the linear system are those of the round, before projection.
template <Matrix M>
void AlternatingEngine<M>::update_x() {
  step_.x = R_.sigma * v_.x - qp_.q;
  step_.y = qp_.b - v_.y.cwiseQuotient(R_.A);
  step_.z = t_G_ - v_.z.cwiseQuotient(R_.G);
  step_.z_box = t_ - v_.z_box.cwiseProduct(R_.box.unaryExpr(&inverse_or_zero));
  system_.solve(step_.x, step_.y, step_.z, step_.z_box, workspace_);
  v_.x = step_.x;  // (F1)
}

/// The slack lives in the copy t = h - s of G x, which stays of the size of G x however large h is. With
/// w = G x+ + z/rho, relaxed, t+ = min(w, h) and z+ = rho (w - t+) are s+ = max(0, h - w) and complementary
/// exactly.
template <Matrix M>
void AlternatingEngine<M>::update_z() {
  step_.z = (relaxation * (step_.z - v_.z) + v_.z).cwiseQuotient(R_.G) + t_G_;  // (F8)
  t_G_ = step_.z.cwiseMin(qp_.h);                                               // (F2)
  v_.z = R_.G.cwiseProduct(step_.z - t_G_);                                     // (F4)
}

/// The same for lb <= x <= ub: the copy t of x is projected, the multiplier takes what the projection took.
template <Matrix M>
void AlternatingEngine<M>::update_box() {
  for (Index j = 0; j < qp_.n(); ++j) {
    const double r = R_.box[j];
    if (r == 0) continue;
    const double w = relaxation * v_.x[j] + (1 - relaxation) * t_[j] + v_.z_box[j] / r;  // (F8)
    t_[j] = std::clamp(w, qp_.lb[j], qp_.ub[j]);                                         // (F5)
    v_.z_box[j] = r * (w - t_[j]);                                                       // (F6)
  }
}

template <Matrix M>
void AlternatingEngine<M>::update_y() {
  v_.y += relaxation * (step_.y - v_.y);  // (F3): the linear system has added rho (A x+ - b) already
}

template <Matrix M>
void AlternatingEngine<M>::note_drift() {
  drift_.x = v_.x - previous_.x;
  drift_.y = v_.y - previous_.y;
  drift_.z = v_.z - previous_.z;
  drift_.z_box = v_.z_box - previous_.z_box;
  previous_ = v_;
}

/// How far x and its copies are apart, relative. (R1) would not do to steer by: it is zero inside the
/// constraints, however far the slack is off.
template <Matrix M>
double AlternatingEngine<M>::disagreement() {
  step_.y.setZero();
  step_.z.setZero();
  add_product(1, qp_.A, v_.x, step_.y);
  add_product(1, qp_.G, v_.x, step_.z);
  const double scale = std::max({smallest_scale, norm(step_.y), norm(step_.z), norm(v_.x)});
  step_.y -= qp_.b;
  step_.z -= t_G_;
  step_.x = (box_weight_.array() > 0).select(v_.x - t_, 0);
  return std::max({norm(step_.y), norm(step_.z), norm(step_.x)}) / scale;  // (F7)
}

/// Balances primal and dual errors, at growing intervals, so that the penalty settles and ADMM's convergence
/// holds.
template <Matrix M>
bool AlternatingEngine<M>::adapt_penalty(const Residuals& residuals) {
  const double imbalance = std::sqrt(std::max(disagreement(), 1e-16) / std::max(residuals.dual, 1e-16));
  const double rho = std::clamp(rho_ * imbalance, smallest_rho, largest_rho);
  if (rho < worth_adapting * rho_ && rho_ < worth_adapting * rho) return true;
  set_penalty(rho);
  next_adaptation_ = rounds_ + adaptation_gap_;
  adaptation_gap_ += adaptation_gap_ / 2;
  return factorise();
}

template <Matrix M>
void AlternatingEngine<M>::report(const Residuals& residuals) const {
  if (!settings_.log) return;
  std::array<char, 100> line{};
  (void)std::snprintf(line.data(), line.size(), "%7d  primal %.1e  dual %.1e  gap %.1e  rho %.1e", rounds_,
                      residuals.primal, residuals.dual, residuals.gap, rho_);
  settings_.log(line.data());
}

template class AlternatingEngine<DenseMatrix>;
template class AlternatingEngine<SparseMatrix>;

}  // namespace altdiff::detail
