#include "engines/interior_point.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double first_rho = 1e-6;
constexpr double first_delta = 1e-4;
constexpr double smallest_weight = 1e-10;       // of the proximal terms
constexpr double smallest_weight_late = 1e-13;  // where the residuals have stopped falling
constexpr double to_the_boundary = 0.99;        // share of the way that a step may go
constexpr double unequal_steps = 0.1;            // of the dual residual, that they may add to it
constexpr int most_iterations = 200;
constexpr int most_refinements = 12;
constexpr double solved_well = 1e-13;    // relative error of a linear solve that no refinement need lower
constexpr double solved_badly = 1e-9;    // above, another floor is tried
constexpr double progress = 0.95;        // of a residual that lets a centre move
constexpr int extra_iterations = 2;      // after the target: they separate s from z
constexpr int patience = 20;             // iterations without a better point
constexpr int test_proofs_every = 4;     // iterations
/// What the factorisation adds at least to the diagonal: about the root of the rounding unit. Refinement takes
/// it off again; where it cannot, the others are tried.
constexpr std::array floors{1e-8, 1e-10, 1e-12, 1e-14, 1e-6};

std::vector<Index> where(const Vector& lb, const Vector& ub, auto condition) {
  std::vector<Index> indices;
  for (Index j = 0; j < lb.size(); ++j)
    if (condition(lb[j], ub[j])) indices.push_back(j);
  return indices;
}

Index length(const std::vector<Index>& v) { return static_cast<Index>(v.size()); }

/// How far v may go along d before an entry vanishes, at most `longest`.
double step_length(const Vector& v, const Vector& d, double longest) {
  double alpha = longest;
  for (Index i = 0; i < v.size(); ++i)
    if (d[i] < 0) alpha = std::min(alpha, -v[i] / d[i]);
  return alpha;
}

}  // namespace

template <Matrix M>
InteriorPoint<M>::InteriorPoint(const QuadraticProgram<M>& qp, const Settings& settings,
                                AugmentedSystem<M> system)
    : qp_(qp),
      settings_(settings),
      fixed_(where(qp.lb, qp.ub, [](double l, double u) { return l == u; })),
      lower_(where(qp.lb, qp.ub, [](double l, double u) { return l < u && std::isfinite(l); })),
      upper_(where(qp.lb, qp.ub, [](double l, double u) { return l < u && std::isfinite(u); })),
      n_(qp.n()),
      p_(qp.p()),
      m_(qp.m()),
      e_(p_ + length(fixed_)),
      c_(m_ + length(lower_) + length(upper_)),
      system_(std::move(system)),
      certificates_(qp),
      R_y_(e_.size()),
      R_z_(c_.size()),
      rho_(first_rho),
      delta_(first_delta),
      floor_(floors[0]),
      workspace_(system_.workspace_size()),
      box_(n_),
      best_worst_(std::numeric_limits<double>::infinity()) {
  e_ << qp.b, qp.lb(fixed_);
  c_ << qp.h, -qp.lb(lower_), qp.ub(upper_);
  R_ = {.sigma = 0, .A = Vector(p_), .G = Vector(m_), .box = Vector(n_)};
  v_ = {.x = Vector::Zero(n_),
        .y = Vector::Zero(e_.size()),
        .z = Vector::Ones(c_.size()),
        .s = Vector::Ones(c_.size())};
  residual_ = rhs_ = r_ = correction_ = centre_ = best_ = d_ = v_;
  w_ = v_.s;
}

template <Matrix M>
void InteriorPoint<M>::add_E(double alpha, const Vector& x, Vector& y) const {
  add_product(alpha, qp_.A, x, y.head(p_));
  for (Index i = 0; i < length(fixed_); ++i) y[p_ + i] += alpha * x[fixed_[static_cast<std::size_t>(i)]];
}

template <Matrix M>
void InteriorPoint<M>::add_E_transposed(double alpha, const Vector& y, Vector& x) const {
  add_transposed_product(alpha, qp_.A, y.head(p_), x);
  for (Index i = 0; i < length(fixed_); ++i) x[fixed_[static_cast<std::size_t>(i)]] += alpha * y[p_ + i];
}

template <Matrix M>
void InteriorPoint<M>::add_C(double alpha, const Vector& x, Vector& z) const {
  add_product(alpha, qp_.G, x, z.head(m_));
  Index row = m_;
  for (const Index j : lower_) z[row++] -= alpha * x[j];
  for (const Index j : upper_) z[row++] += alpha * x[j];
}

template <Matrix M>
void InteriorPoint<M>::add_C_transposed(double alpha, const Vector& z, Vector& x) const {
  add_transposed_product(alpha, qp_.G, z.head(m_), x);
  Index row = m_;
  for (const Index j : lower_) x[j] -= alpha * z[row++];
  for (const Index j : upper_) x[j] += alpha * z[row++];
}

template <Matrix M>
double InteriorPoint<M>::mu() const {
  return c_.size() > 0 ? v_.s.dot(v_.z) / static_cast<double>(c_.size()) : 0;
}

/// Residuals of (I1) without proximal terms, and how large they are relative to their terms.
template <Matrix M>
auto InteriorPoint<M>::measure() -> Measure {
  Vector& t = correction_.x;
  residual_.x = -qp_.q;
  double dual_scale = std::max(1.0, norm(qp_.q));
  double gap = qp_.q.dot(v_.x);
  double gap_scale = std::max(1.0, std::abs(gap));
  const auto take_off = [&](const auto& add) {
    t.setZero();
    add(t);
    dual_scale = std::max(dual_scale, norm(t));
    residual_.x -= t;
  };
  take_off([&](Vector& u) { add_product(1, qp_.P, v_.x, u); });
  const auto count = [&](double term) {
    gap += term;
    gap_scale = std::max(gap_scale, std::abs(term));
  };
  count(v_.x.dot(t));
  take_off([&](Vector& u) { add_E_transposed(1, v_.y, u); });
  take_off([&](Vector& u) { add_C_transposed(1, v_.z, u); });
  count(e_.dot(v_.y));
  count(c_.dot(v_.z));

  residual_.y.setZero();
  residual_.z.setZero();
  add_E(-1, v_.x, residual_.y);
  add_C(-1, v_.x, residual_.z);
  const double primal_scale = std::max({1.0, norm(residual_.y), norm(residual_.z), norm(e_)});
  residual_.y += e_;
  residual_.z += c_ - v_.s;
  return {.primal = std::max(norm(residual_.y), norm(residual_.z)) / primal_scale,
          .dual = norm(residual_.x) / dual_scale,
          .gap = std::abs(gap) / gap_scale};
}

template <Matrix M>
bool InteriorPoint<M>::factorise(double floor) {
  rho_f_ = std::max(rho_, floor);
  delta_f_ = std::max(delta_, floor);
  R_.sigma = rho_f_;
  R_y_.setConstant(1 / delta_f_);
  R_z_ = (w_.array() + delta_f_).inverse();
  R_.A = R_y_.head(p_);
  R_.G = R_z_.head(m_);
  R_.box.setZero();
  for (const Index j : fixed_) R_.box[j] = 1 / delta_f_;
  Index row = m_;
  for (const Index j : lower_) R_.box[j] += R_z_[row++];
  for (const Index j : upper_) R_.box[j] += R_z_[row++];
  return system_.factorise(qp_.P, qp_.A, qp_.G, R_);
}

/// Tries the floor that served last, then the others.
template <Matrix M>
bool InteriorPoint<M>::factorise() {
  if (factorise(floor_)) return true;
  return std::ranges::any_of(floors, [&](double floor) {
    floor_ = floor;
    return factorise(floor);
  });
}

/// Right-hand sides of x, E and C in, steps out: bounds and fixed variables share the diagonal of their
/// variable.
template <Matrix M>
void InteriorPoint<M>::solve_factor(Iterate& d) {
  box_.setZero();
  for (Index i = 0; i < length(fixed_); ++i)
    box_[fixed_[static_cast<std::size_t>(i)]] += R_y_[p_ + i] * d.y[p_ + i];
  Index row = m_;
  for (const Index j : lower_) {
    box_[j] -= R_z_[row] * d.z[row];
    ++row;
  }
  for (const Index j : upper_) {
    box_[j] += R_z_[row] * d.z[row];
    ++row;
  }
  for (Index j = 0; j < n_; ++j) box_[j] = R_.box[j] > 0 ? box_[j] / R_.box[j] : 0;
  system_.solve(d.x, d.y.head(p_), d.z.head(m_), box_, workspace_);
  for (Index i = 0; i < length(fixed_); ++i)
    d.y[p_ + i] = R_y_[p_ + i] * (d.x[fixed_[static_cast<std::size_t>(i)]] - d.y[p_ + i]);
  row = m_;
  for (const Index j : lower_) {
    d.z[row] = R_z_[row] * (-d.x[j] - d.z[row]);
    ++row;
  }
  for (const Index j : upper_) {
    d.z[row] = R_z_[row] * (d.x[j] - d.z[row]);
    ++row;
  }
}

/// r -= the matrix of the Newton system times d, with the true rho and delta.
template <Matrix M>
void InteriorPoint<M>::subtract_product(const Iterate& d, Iterate& r) const {
  r.x -= rho_ * d.x;
  add_product(-1, qp_.P, d.x, r.x);
  add_E_transposed(-1, d.y, r.x);
  add_C_transposed(-1, d.z, r.x);
  r.y += delta_ * d.y;
  add_E(-1, d.x, r.y);
  r.z += (w_.array() + delta_).matrix().cwiseProduct(d.z);
  add_C(-1, d.x, r.z);
}

/// Solves with the factor and refines to the true rho and delta; returns the relative error.
template <Matrix M>
double InteriorPoint<M>::refine(Iterate& d) {
  const auto size = [](const Iterate& v) { return std::max({norm(v.x), norm(v.y), norm(v.z)}); };
  const double scale = std::max(size(rhs_), std::numeric_limits<double>::min());
  d.x = rhs_.x;
  d.y = rhs_.y;
  d.z = rhs_.z;
  solve_factor(d);
  double error = std::numeric_limits<double>::infinity();
  for (int k = 0;; ++k) {
    r_.x = rhs_.x;
    r_.y = rhs_.y;
    r_.z = rhs_.z;
    subtract_product(d, r_);
    const double now = size(r_) / scale;
    if (!(now < error)) {  // the last correction made it worse
      if (k > 0) {
        d.x -= correction_.x;
        d.y -= correction_.y;
        d.z -= correction_.z;
      }
      return std::min(error, std::isnan(now) ? std::numeric_limits<double>::infinity() : now);
    }
    const bool slow = now > 0.5 * error && k > 3;
    error = now;
    if (error <= solved_well || k == most_refinements || slow) return error;
    correction_.x = r_.x;
    correction_.y = r_.y;
    correction_.z = r_.z;
    solve_factor(correction_);
    d.x += correction_.x;
    d.y += correction_.y;
    d.z += correction_.z;
  }
}

/// The Newton step towards z ds + s dz = complementarity.
template <Matrix M>
bool InteriorPoint<M>::solve_newton(const Vector& complementarity, Iterate& d) {
  rhs_.x = residual_.x - rho_ * (v_.x - centre_.x);
  rhs_.y = residual_.y + delta_ * (v_.y - centre_.y);
  rhs_.z = residual_.z + delta_ * (v_.z - centre_.z) - complementarity.cwiseQuotient(v_.z);
  double error = refine(d);
  if (!(error <= solved_badly)) {
    Iterate best = d;
    double least = error;
    double best_floor = floor_;
    for (const double floor : floors) {
      if (floor == best_floor || !factorise(floor)) continue;
      error = refine(d);
      if (error < least) {
        best = d;
        least = error;
        floor_ = floor;
      }
      if (least <= solved_badly) break;
    }
    d = best;
    error = least;
    if (!factorise()) return false;
  }
  d.s = (complementarity - v_.s.cwiseProduct(d.z)).cwiseQuotient(v_.z);
  return std::isfinite(error) && d.x.allFinite() && d.z.allFinite();
}

/// Mehrotra's: from a point that satisfies the equations with s = -z, shifted inside.
template <Matrix M>
bool InteriorPoint<M>::start() {
  if (!factorise()) return false;
  Iterate d = v_;
  d.x = -qp_.q;
  d.y = e_;
  d.z = c_;
  solve_factor(d);
  if (!d.x.allFinite() || !d.z.allFinite()) return false;
  v_.x = d.x;
  v_.y = d.y;
  if (c_.size() > 0) {
    const auto shift = [](const Vector& v) { return std::max(0.0, -1.5 * v.minCoeff()); };
    v_.z = d.z;
    v_.s = -d.z;
    if (norm(v_.z) <= 1e-4) {
      v_.z.setConstant(0.1);
      v_.s.setConstant(0.1);
    }
    v_.s.array() += shift(v_.s);
    v_.z.array() += shift(v_.z);
    const double product = v_.s.dot(v_.z);
    const double sum_s = v_.s.sum();
    const double sum_z = v_.z.sum();
    v_.s.array() += 0.5 * product / sum_z;
    v_.z.array() += 0.5 * product / sum_s;
  }
  centre_ = v_;
  return true;
}

/// Predictor and corrector on one factorisation.
template <Matrix M>
bool InteriorPoint<M>::step() {
  w_ = v_.s.cwiseQuotient(v_.z);
  if (!factorise()) return false;
  const double before = mu();
  if (!solve_newton(-v_.s.cwiseProduct(v_.z), d_)) return false;
  alpha_primal_ = alpha_dual_ = 1;
  if (c_.size() > 0) {
    const double alpha_s = step_length(v_.s, d_.s, 1);
    const double alpha_z = step_length(v_.z, d_.z, 1);
    const double predicted =
        (v_.s + alpha_s * d_.s).dot(v_.z + alpha_z * d_.z) / static_cast<double>(c_.size());
    const double sigma = std::pow(std::clamp(predicted / before, 0.0, 1.0), 3);
    target_ = -v_.s.cwiseProduct(v_.z) - d_.s.cwiseProduct(d_.z);
    target_.array() += sigma * before;
    if (!solve_newton(target_, d_)) return false;
    alpha_primal_ = step_length(v_.s, d_.s, 1 / to_the_boundary) * to_the_boundary;
    alpha_dual_ = step_length(v_.z, d_.z, 1 / to_the_boundary) * to_the_boundary;
    // Unequal steps leave (alpha_primal - alpha_dual) P dx in the dual residual.
    correction_.x.setZero();
    add_product(1, qp_.P, d_.x, correction_.x);
    if (std::abs(alpha_primal_ - alpha_dual_) * norm(correction_.x) > unequal_steps * norm(residual_.x))
      alpha_primal_ = alpha_dual_ = std::min(alpha_primal_, alpha_dual_);
  }
  v_.x += alpha_primal_ * d_.x;
  v_.s += alpha_primal_ * d_.s;
  v_.y += alpha_dual_ * d_.y;
  v_.z += alpha_dual_ * d_.z;
  return true;
}

/// A centre follows its iterate where the residual that it holds back has fallen, or is mostly its own doing;
/// the weights fall with mu.
template <Matrix M>
void InteriorPoint<M>::move_centres(const Measure& before, const Measure& after, double mu_before) {
  const double rate = c_.size() > 0 ? std::clamp(1 - mu() / mu_before, 0.0, 0.9) : 0.9;
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

template <Matrix M>
auto InteriorPoint<M>::run(double target) -> Outcome {
  if (!start()) return Outcome::Stalled;
  Measure now = measure();
  int extra = 0;
  for (;; ++iterations_) {
    report(now);
    if (now.worst() < best_worst_ || (extra > 0 && now.worst() < 10 * target)) {
      idle_ = now.worst() < 0.9 * best_worst_ ? 0 : idle_ + 1;
      best_worst_ = std::min(best_worst_, now.worst());
      best_ = v_;
    } else {
      ++idle_;
    }
    if (best_worst_ <= target && extra++ == extra_iterations) return Outcome::Reached;
    if (Outcome outcome{}; certified(outcome)) return outcome;
    const Outcome end = best_worst_ <= target ? Outcome::Reached : Outcome::Stalled;
    if (out_of_time()) return best_worst_ <= target ? Outcome::Reached : Outcome::TimeLimit;
    if (iterations_ >= std::min(settings_.max_iterations, most_iterations))
      return best_worst_ <= target ? Outcome::Reached : Outcome::MaxIterations;
    if (idle_ > patience) return end;
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
  proof_ = {.x = v_.x, .y = v_.y.head(p_), .z = v_.z.head(m_), .z_box = Vector::Zero(n_)};
  if (certificates_.proves_primal_infeasible(qp_, proof_)) {
    outcome = Outcome::PrimalInfeasible;
    return true;
  }
  for (const Vector* ray : {&v_.x, &d_.x}) {
    if (!certificates_.proves_dual_infeasible(qp_, *ray)) continue;
    proof_.x = *ray;
    outcome = Outcome::DualInfeasible;
    return true;
  }
  return false;
}

template <Matrix M>
Point InteriorPoint<M>::point() const {
  Point v{.x = best_.x, .y = best_.y.head(p_), .z = best_.z.head(m_), .z_box = Vector::Zero(n_)};
  for (Index i = 0; i < length(fixed_); ++i) v.z_box[fixed_[static_cast<std::size_t>(i)]] = best_.y[p_ + i];
  Index row = m_;
  for (const Index j : lower_) v.z_box[j] -= best_.z[row++];
  for (const Index j : upper_) v.z_box[j] += best_.z[row++];
  return v;
}

template <Matrix M>
bool InteriorPoint<M>::out_of_time() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  return elapsed.count() > settings_.time_limit;
}

template <Matrix M>
void InteriorPoint<M>::report(const Measure& now) const {
  if (!settings_.log) return;
  std::array<char, 160> line{};
  (void)std::snprintf(line.data(), line.size(),
                      "%4d  %14.7e  %8.1e  %8.1e  %8.1e  %8.1e  %8.1e  %8.1e  %6.3f  %6.3f", iterations_,
                      0.0, now.primal, now.dual, now.gap, mu(), rho_, delta_, alpha_primal_, alpha_dual_);
  settings_.log(line.data());
}

template class InteriorPoint<DenseMatrix>;
template class InteriorPoint<SparseMatrix>;

}  // namespace altdiff::detail
