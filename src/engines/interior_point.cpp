#include "engines/interior_point.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "linalg/norms.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double first_rho = 1e-6;
constexpr double first_delta = 1e-4;
constexpr double smallest_weight = 1e-10;       // of the proximal terms
constexpr double smallest_weight_late = 1e-16;  // where the residuals have stopped falling
constexpr double to_the_boundary = 0.99;        // share of the way that a step may go
constexpr double unequal_steps = 0.1;           // of the dual residual, that they may add to it
constexpr double smallest_mu = 1e-15;           // below, s and z only lose their meaning
constexpr int most_iterations = 200;
constexpr double progress = 0.95;      // of a residual that lets a centre move
constexpr int extra_iterations = 2;    // after the target: they separate s from z
constexpr int patience = 25;           // iterations without a better point
constexpr double nearly_there = 1e-8;  // the finish may do the rest
constexpr int test_proofs_every = 4;   // iterations
constexpr double of_predictor = 1e-6;  // relative errors of the two solves of a step
constexpr double of_step = 1e-11;
constexpr double separation_target = 1e-6;  // residuals at which the pairs of s and z are looked at
constexpr double clearly_larger = 100;      // ratio of a pair that tells which of the two will vanish
constexpr Index mended_easily = 2000;       // among so many pairs one may be unclear: the finish will tell

/// How far v may go along d before an entry vanishes, at most `longest`.
double step_length(const Vector& v, const Vector& d, double longest) {
  const double steepest = v.size() > 0 ? -d.cwiseQuotient(v).minCoeff() : 0;
  return steepest * longest > 1 ? 1 / steepest : longest;
}

}  // namespace

template <Matrix M>
double InteriorPoint<M>::Measure::worst() const {
  const double sum = primal + dual + gap;
  return std::isfinite(sum) ? std::max({primal, dual, gap}) : std::numeric_limits<double>::quiet_NaN();
}

template <Matrix M>
InteriorPoint<M>::InteriorPoint(const QuadraticProgram<M>& qp, const Settings& settings,
                                AugmentedSystem<M> system, double least_rho)
    : qp_(qp),
      settings_(settings),
      newton_(qp, std::move(system)),
      certificates_(qp, settings.tolerance),
      s_(Vector::Ones(newton_.c().size())),
      w_(s_),
      t_(qp.n()),
      rho_(std::max(first_rho, least_rho)),
      delta_(first_delta),
      least_rho_(least_rho),
      weight_floor_(smallest_weight),
      least_{.primal = infinity, .dual = infinity, .gap = infinity},
      best_worst_(infinity) {
  v_ = {.x = Vector::Zero(qp.n()), .y = Vector::Zero(newton_.e().size()), .z = s_};
  residual_ = right_side_ = d_ = centre_ = best_ = v_;
  ds_ = target_ = s_;
}

template <Matrix M>
double InteriorPoint<M>::mu() const {
  return s_.size() > 0 ? s_.dot(v_.z) / static_cast<double>(s_.size()) : 0;
}

/// Residuals of (I1) without proximal terms, and how large they are relative to their terms.
template <Matrix M>
auto InteriorPoint<M>::measure() -> Measure {
  residual_.x = -qp_.q;
  double dual_scale = std::max(1.0, norm(qp_.q));
  double gap = qp_.q.dot(v_.x);
  double gap_scale = std::max(1.0, std::abs(gap));
  const auto take_off = [&](const auto& add) {
    t_.setZero();
    add(t_);
    dual_scale = std::max(dual_scale, norm(t_));
    residual_.x -= t_;
  };
  take_off([&](Vector& u) { add_product(1, qp_.P, v_.x, u); });
  const auto count = [&](double term) {
    gap += term;
    gap_scale = std::max(gap_scale, std::abs(term));
  };
  objective_ = gap + 0.5 * v_.x.dot(t_);
  count(v_.x.dot(t_));
  take_off([&](Vector& u) { newton_.add_E_transposed(1, v_.y, u); });
  take_off([&](Vector& u) { newton_.add_C_transposed(1, v_.z, u); });
  count(newton_.e().dot(v_.y));
  count(newton_.c().dot(v_.z));

  residual_.y.setZero();
  residual_.z.setZero();
  newton_.add_E(-1, v_.x, residual_.y);
  newton_.add_C(-1, v_.x, residual_.z);
  const double primal_scale = std::max({1.0, norm(residual_.y), norm(residual_.z), norm(newton_.e())});
  residual_.y += newton_.e();
  residual_.z += newton_.c() - s_;
  return {.primal = std::max(norm(residual_.y), norm(residual_.z)) / primal_scale,
          .dual = norm(residual_.x) / dual_scale,
          .gap = std::abs(gap) / gap_scale};
}

/// The Newton step towards z ds + s dz = complementarity.
template <Matrix M>
bool InteriorPoint<M>::solve_newton(const Vector& complementarity, double accuracy) {
  right_side_.x = residual_.x - rho_ * (v_.x - centre_.x);
  right_side_.y = residual_.y + delta_ * (v_.y - centre_.y);
  right_side_.z = residual_.z + delta_ * (v_.z - centre_.z) - complementarity.cwiseQuotient(v_.z);
  if (!newton_.solve(right_side_, accuracy, d_)) return false;
  ds_ = (complementarity - s_.cwiseProduct(d_.z)).cwiseQuotient(v_.z);
  return true;
}

/// Mehrotra's: from a point that satisfies the equations with s = -z, shifted inside.
template <Matrix M>
bool InteriorPoint<M>::start() {
  if (!newton_.factorise(w_, rho_, delta_)) return false;
  v_ = {.x = -qp_.q, .y = newton_.e(), .z = newton_.c()};
  newton_.solve_roughly(v_);
  if (!std::isfinite(v_.size())) return false;
  if (s_.size() > 0) {
    const auto shift = [](const Vector& v) { return std::max(0.0, -1.5 * v.minCoeff()); };
    s_ = -v_.z;
    if (norm(s_) <= 1e-4) {
      s_.setConstant(0.1);
      v_.z.setConstant(0.1);
    }
    s_.array() += shift(s_);
    v_.z.array() += shift(v_.z);
    const double product = s_.dot(v_.z);
    const double sum_s = s_.sum();
    s_.array() += 0.5 * product / v_.z.sum();
    v_.z.array() += 0.5 * product / sum_s;
  }
  centre_ = best_ = v_;
  return true;
}

/// Predictor and corrector on one factorisation.
template <Matrix M>
bool InteriorPoint<M>::step() {
  w_ = s_.cwiseQuotient(v_.z);
  if (!newton_.factorise(w_, rho_, delta_)) return false;
  target_ = -s_.cwiseProduct(v_.z);
  // The predictor only says how far to aim, unless there is no corrector.
  if (!solve_newton(target_, s_.size() > 0 ? of_predictor : of_step)) return false;
  alpha_primal_ = alpha_dual_ = 1;
  if (s_.size() > 0) {
    const double before = mu();
    const double alpha_s = step_length(s_, ds_, 1);
    const double alpha_z = step_length(v_.z, d_.z, 1);
    const double after = (s_ + alpha_s * ds_).dot(v_.z + alpha_z * d_.z) / static_cast<double>(s_.size());
    const double sigma =
        std::max(std::pow(std::clamp(after / before, 0.0, 1.0), 3), std::min(1.0, smallest_mu / before));
    target_ -= ds_.cwiseProduct(d_.z);
    target_.array() += sigma * before;
    if (!solve_newton(target_, of_step)) return false;
    alpha_primal_ = step_length(s_, ds_, 1 / to_the_boundary) * to_the_boundary;
    alpha_dual_ = step_length(v_.z, d_.z, 1 / to_the_boundary) * to_the_boundary;
    // Unequal steps leave (alpha_primal - alpha_dual) P dx in the dual residual.
    t_.setZero();
    add_product(1, qp_.P, d_.x, t_);
    if (std::abs(alpha_primal_ - alpha_dual_) * norm(t_) > unequal_steps * norm(residual_.x))
      alpha_primal_ = alpha_dual_ = std::min(alpha_primal_, alpha_dual_);
  }
  v_.x += alpha_primal_ * d_.x;
  s_ += alpha_primal_ * ds_;
  v_.y += alpha_dual_ * d_.y;
  v_.z += alpha_dual_ * d_.z;
  return true;
}

/// A centre follows its iterate where the residual that it holds back has fallen, or is mostly its own doing;
/// the weights fall with mu.
template <Matrix M>
void InteriorPoint<M>::move_centres(const Measure& before, const Measure& after, double mu_before) {
  const double rate = s_.size() > 0 ? std::clamp(1 - mu() / mu_before, 0.0, 0.9) : 0.9;
  const auto lowered = [&](double weight, bool moved) {
    return std::max(std::min(weight_floor_, weight), weight * (1 - (moved ? 1 : 0.666) * rate));
  };
  const double outer_dual = norm(residual_.x);
  const double outer_primal = std::max(norm(residual_.y), norm(residual_.z));
  const double inner_dual = norm(residual_.x - rho_ * (v_.x - centre_.x));
  const double inner_primal = std::max(norm(residual_.y + delta_ * (v_.y - centre_.y)),
                                       norm(residual_.z + delta_ * (v_.z - centre_.z)));
  const bool dual_fell = after.dual < progress * before.dual;
  const bool primal_fell = after.primal < progress * before.primal;
  const bool dual_moves = dual_fell || inner_dual <= 0.5 * outer_dual;
  const bool primal_moves = primal_fell || inner_primal <= 0.5 * outer_primal;
  rho_ = lowered(rho_, dual_moves);
  delta_ = lowered(delta_, primal_moves);
  // What is left is the proximal term's alone: it is too strong.
  if (dual_moves && !dual_fell) rho_ = std::max(smallest_weight_late, 0.1 * rho_);
  if (primal_moves && !primal_fell) delta_ = std::max(smallest_weight_late, 0.1 * delta_);
  rho_ = std::max(rho_, least_rho_);
  if (dual_moves) centre_.x = v_.x;
  if (primal_moves) {
    centre_.y = v_.y;
    centre_.z = v_.z;
  }
  held_back_ = dual_moves && primal_moves ? 0 : held_back_ + 1;
  if (held_back_ > 5 && rho_ <= weight_floor_ && delta_ <= weight_floor_) {
    weight_floor_ = smallest_weight_late;
    centre_ = v_;
  }
}

/// Any of the three may have its turn while another rises.
template <Matrix M>
void InteriorPoint<M>::note_progress(const Measure& now) {
  ++idle_;
  const auto note = [&](double value, double& least) {
    if (!(value < 0.9 * least)) return;
    least = value;
    idle_ = 0;
  };
  note(std::max(now.primal, 1e-14), least_.primal);
  note(std::max(now.dual, 1e-14), least_.dual);
  note(std::max(now.gap, 1e-14), least_.gap);
}

template <Matrix M>
bool InteriorPoint<M>::separated() const {
  const auto unclear =
      ((s_.array() < clearly_larger * v_.z.array()) && (v_.z.array() < clearly_larger * s_.array())).count();
  return unclear * mended_easily <= s_.size();
}

template <Matrix M>
auto InteriorPoint<M>::run(double target) -> Outcome {
  return iterate(target, false);
}

template <Matrix M>
auto InteriorPoint<M>::run_until_separated(double target) -> Outcome {
  return iterate(target, true);
}

/// The factorisation of a step may find that there is no time for it; the iterate is that of the step before.
template <Matrix M>
auto InteriorPoint<M>::iterate(double target, bool until_separated) -> Outcome {
  try {
    return iterate_in_time(target, until_separated);
  } catch (const OutOfTime&) {
    return best_worst_ <= target ? Outcome::Reached : Outcome::TimeLimit;
  }
}

template <Matrix M>
auto InteriorPoint<M>::iterate_in_time(double target, bool until_separated) -> Outcome {
  if (!started_ && !start()) return Outcome::Stalled;
  started_ = true;
  Measure now = measure();
  int extra = 0;
  for (;; ++iterations_) {
    report(now);
    if (now.worst() < best_worst_ || (extra > 0 && now.worst() < 10 * target)) {
      best_worst_ = std::min(best_worst_, now.worst());
      best_ = v_;
    }
    note_progress(now);
    if (until_separated && now.worst() <= separation_target && separated()) {
      best_ = v_;
      return Outcome::Separated;
    }
    if (best_worst_ <= target && extra++ == extra_iterations) return Outcome::Reached;
    if (Outcome outcome{}; certified(outcome)) return outcome;
    const Outcome end = best_worst_ <= target ? Outcome::Reached : Outcome::Stalled;
    if (out_of_time()) return best_worst_ <= target ? Outcome::Reached : Outcome::TimeLimit;
    if (iterations_ >= std::min(settings_.max_iterations, most_iterations))
      return best_worst_ <= target ? Outcome::Reached : Outcome::MaxIterations;
    if (idle_ > (best_worst_ < nearly_there ? patience / 4 : patience)) return end;
    const double mu_before = mu();
    if (!step()) return end;
    const Measure after = measure();
    if (!std::isfinite(after.worst())) return end;
    move_centres(now, after, mu_before);
    now = after;
  }
}

/// Where there is no solution, the multipliers or x grow towards a proof of that.
template <Matrix M>
bool InteriorPoint<M>::certified(Outcome& outcome) {
  if (iterations_ == 0 || iterations_ % test_proofs_every != 0) return false;
  // The last step holds no part of P x + q, which the multipliers themselves have to outgrow first.
  for (const Unknowns* multipliers : {&v_, &d_}) {
    proof_ = {.x = v_.x,
              .y = multipliers->y.head(qp_.p()),
              .z = multipliers->z.head(qp_.m()),
              .z_box = Vector::Zero(qp_.n())};
    if (!certificates_.proves_primal_infeasible(qp_, proof_)) continue;
    outcome = Outcome::PrimalInfeasible;
    return true;
  }
  if (ignores_rays_) return false;
  for (const Vector* ray : {&v_.x, &d_.x}) {
    proof_.x = *ray;
    if (!certificates_.proves_dual_infeasible(qp_, proof_.x, certificates_.nearly_flat)) continue;
    outcome = Outcome::DualInfeasible;
    return true;
  }
  return false;
}

template <Matrix M>
void InteriorPoint<M>::report(const Measure& now) const {
  if (!settings_.log) return;
  if (iterations_ == 0)
    settings_.log(
        " iter       objective    primal      dual       gap        mu       rho     delta  step p  step d");
  std::array<char, 160> line{};
  (void)std::snprintf(
      line.data(), line.size(), "%4d  %14.7e  %8.1e  %8.1e  %8.1e  %8.1e  %8.1e  %8.1e  %6.3f  %6.3f",
      iterations_, objective_, now.primal, now.dual, now.gap, mu(), rho_, delta_, alpha_primal_, alpha_dual_);
  settings_.log(line.data());
}

template class InteriorPoint<DenseMatrix>;
template class InteriorPoint<SparseMatrix>;

}  // namespace altdiff::detail
