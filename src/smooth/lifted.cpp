#include "smooth/lifted.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "batch/grouping.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "linalg/watch.hpp"
#include "problem/checks.hpp"
#include "solve_one.hpp"

namespace altdiff::detail {

namespace {

using Array = Eigen::ArrayXd;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double of_quadratic = 1e-9;  // tolerance of the quadratic programs
constexpr double armijo = 1e-4;
constexpr double rounding_of_f = 1e-14;  // relative to its parts
constexpr double one_row = 1e-15;        // rounding of M x - o, relative to its parts
constexpr double of_zeros = 1e-20;       // the same where these are zero, and say nothing
constexpr double exact = 1e-13;          // a residual that a step could hardly lower
constexpr double nearly = 1e-6;          // and one after which the quadratic programs must be exact, too
constexpr double most_curvature = 1e8;   // of a row in the Hessian for derivatives: beyond it, an equality
constexpr double most_roundings = 1000;  // of M x - o that t may differ by
constexpr double well_inside = 1e-8;     // a distance to the end of the domain that rounding does not hide
constexpr double hardly_apart = 1e-6;    // M x - o and t, relative to that
constexpr double longest = 50;           // step of a slope, unless it is larger
constexpr int most_steps = 200;
constexpr int most_halvings = 40;
constexpr int patience = 3;  // steps without a smaller residual

class Lifted {
 public:
  Lifted(const std::vector<InstanceTerm>& terms, const Instance& instance, const Settings& settings)
      : terms_(terms), settings_(settings), n_(instance.matrices.n), user_(normalised(program_of(instance))) {
    for (const InstanceTerm& term : terms)
      for (Index i = 0; lifted(term) && i < term.rows(); ++i)
        if (term.limited(i)) rows_.push_back({.term = &term, .row = i});
    held_.setZero(n_);
    for (const InstanceTerm& term : terms)
      for (Index i = 0; lifted(term) && i < term.rows(); ++i)
        if (term.held(i)) hold(term, i);
    k_ = static_cast<Index>(rows_.size());
    M_.resize(k_, n_);
    o_.setZero(k_);
    w_.setOnes(k_);
    for (Index r = 0; r < k_; ++r) {
      const auto [term, i] = rows_[at(r)];
      M_.row(r) = term->row(i).transpose();
      if (term->offset() != nullptr) o_[r] = term->offset()[i];
      if (term->weight() != nullptr) w_[r] = term->weight()[i];
    }
  }

  std::optional<LiftedSolution> run(const Vector& start, double barrier) {
    if (k_ == 0 || !start.allFinite()) return {};
    begin(start, barrier);
    for (int idle = 0; steps_ < most_steps; ++steps_) {
      if (out_of_time() || !find_step()) return {};
      if (!search()) return accepted();
      settle_rows();
      const Residuals now = last_ = residuals();
      report(now);
      const double error = std::max(now.worst(), link_error() * exact);
      idle = error < 0.5 * best_ ? 0 : idle + 1;
      best_ = std::min(best_, error);
      if (error <= exact || (idle >= patience && good(now))) return accepted();
    }
    return {};
  }

 private:
  void report(const Residuals& now) const {
    if (!settings_.log) return;
    std::array<char, 160> line{};
    (void)std::snprintf(line.data(), line.size(), "%5d  lifted            %14.7e  %8.1e  %8.1e  %8.1e  %8.1e",
                        steps_, here_.value, now.primal, now.dual, now.gap, link_error());
    settings_.log(line.data());
  }

  struct RowOf {
    const InstanceTerm* term = nullptr;
    Index row = 0;
  };
  struct State {
    Vector x{}, s{};  // s = phi'(t)
    double value = 0, violation = 0;
  };

  /// Without a map, a number next to zero has all its digits; one next to one has not.
  static bool lifted(const InstanceTerm& term) {
    const bool hides = term.map() != nullptr || term.offset() != nullptr || std::isfinite(term.phi().upper());
    return hides && term.domain_rows() > 0;
  }
  /// phi and phi' of a row that is no unknown, at t; zero outside the domain.
  static std::pair<double, double> value_and_slope(const Phi& phi, double t) {
    Array value;
    Array first;
    Array second;
    phi.evaluate(Array::Constant(1, t), value, first, second);
    if (!std::isfinite(value[0])) return {0, 0};
    if (phi.closed() && (t == phi.lower() || t == phi.upper()))
      return {value[0], t == phi.lower() ? -Phi::end_slope : Phi::end_slope};
    return {value[0], first[0]};
  }
  /// A row that cannot move adds a number to f, and to the gradient if bounds hold it.
  void hold(const InstanceTerm& term, Index i) {
    const double offset = term.offset() == nullptr ? 0 : term.offset()[i];
    const double weight = term.weight() == nullptr ? 1 : term.weight()[i];
    const auto [value, slope] =
        value_and_slope(term.phi(), (term.map() == nullptr ? user_.ub[i] : 0) - offset);
    constant_ += weight * value;
    if (term.map() == nullptr) held_[i] += weight * slope;
  }
  static bool is_variable(const InstanceTerm& term) {
    return term.map() == nullptr && term.offset() == nullptr;
  }
  [[nodiscard]] TermKind kind(Index r) const { return rows_[at(r)].term->phi().kind; }

  /// t, phi(t) and 1 / phi''(t) at a slope.
  struct AtSlope {
    double t, value, inverse;
  };
  [[nodiscard]] AtSlope at_slope(Index r, double s) const {
    if (kind(r) == TermKind::Entropy) {
      const double t = std::exp(s - 1);
      return {.t = t, .value = t > 0 ? t * (s - 1) : 0, .inverse = t};
    }
    if (kind(r) == TermKind::NegativeLog) return {.t = -1 / s, .value = std::log(-s), .inverse = 1 / (s * s)};
    const double e = std::exp(-std::abs(s));
    const double t = s >= 0 ? 1 / (1 + e) : e / (1 + e);
    return {.t = t, .value = -std::log1p(e) - e * std::abs(s) / (1 + e), .inverse = e / ((1 + e) * (1 + e))};
  }

  /// From slope s on to `target`. Towards the end of the domain the slope moves, away from it t does: each
  /// would overshoot where the other does not. Where rounding hides t, its slope is free.
  [[nodiscard]] double moved(Index r, double s, double target) const {
    if (kind(r) == TermKind::BinaryEntropy && s > 0) return -moved_below(r, -s, -target);
    return moved_below(r, s, target);
  }

  [[nodiscard]] double moved_below(Index r, double s, double target) const {
    const double change = target - s;
    if (change < 0) return std::max(target, s - std::max(longest, std::abs(s)));
    const double t = -1 / s;
    const double away = kind(r) == TermKind::NegativeLog ? -1 / (t + t * t * change) : s + std::log1p(change);
    return std::max(away, std::min(target, hidden_[r]));
  }

  /// A barrier that was there has pushed as well, so that slopes are known beyond what t tells.
  void begin(const Vector& start, double barrier) {
    here_.x = start;
    here_.s.resize(k_);
    hidden_.resize(k_);
    for (Index r = 0; r < k_; ++r) {
      const Phi& phi = rows_[at(r)].term->phi();
      const double size = parts(r, start);
      const double rounding = size > 0 ? std::max(one_row * size, 1e-300) : of_zeros;
      const double t =
          std::clamp(M_.row(r).dot(start) - o_[r], phi.lower() + rounding, phi.upper() - rounding);
      Array value;
      Array first;
      Array second;
      phi.evaluate(Array::Constant(1, t), value, first, second);
      here_.s[r] = first[0] - barrier / w_[r] * (1 / (t - phi.lower()) - 1 / (phi.upper() - t));
      phi.evaluate(Array::Constant(1, rounding), value, first, second);
      hidden_[r] = first[0];
    }
    evaluate(here_, true);
  }

  [[nodiscard]] double parts(Index r, const Vector& x) const {
    if (is_variable(*rows_[at(r)].term)) return 1;
    return M_.row(r).cwiseAbs().dot(x.cwiseAbs()) + std::abs(o_[r]);
  }

  /// f and the violation; `derivatives`: also g_ and H_, of the terms that are not lifted.
  void evaluate(State& state, bool derivatives) {
    Vector g = Vector::Zero(n_);
    if (derivatives) H_.setZero(n_, n_);
    state.value = constant_;
    for (const InstanceTerm& term : terms_)
      if (!lifted(term))
        state.value += term.add(state.x.data(), g.data(), derivatives ? H_.data() : nullptr, workspace_);
    if (derivatives) g_ = g + held_;
    const Vector Mx = M_ * state.x;
    state.violation = (user_.A * state.x - user_.b).cwiseAbs().sum();
    state.violation += (user_.G * state.x - user_.h).cwiseMax(0.0).sum();
    state.violation += (user_.lb - state.x).cwiseMax(0.0).sum() + (state.x - user_.ub).cwiseMax(0.0).sum();
    for (Index r = 0; r < k_; ++r) {
      const AtSlope now = at_slope(r, state.s[r]);
      state.value += w_[r] * now.value;
      state.violation += std::abs(Mx[r] - now.t - o_[r]);
    }
  }

  /// The quadratic program of (N11) in the step of x, so that its rounding is relative to that, and in rho,
  /// with t = t_k - D s + sqrt(D) rho, D = 1 / (w phi'').
  bool find_step() {
    const Index p = user_.p();
    QuadraticProgram<DenseMatrix> qp;
    qp.P = DenseMatrix::Identity(n_ + k_, n_ + k_);
    qp.P.topLeftCorner(n_, n_) = H_;
    qp.q = Vector::Zero(n_ + k_);
    qp.q.head(n_) = g_;
    qp.A = DenseMatrix::Zero(p + k_, n_ + k_);
    qp.A.topLeftCorner(p, n_) = user_.A;
    qp.A.bottomLeftCorner(k_, n_) = M_;
    qp.b.resize(p + k_);
    qp.b.head(p) = user_.b - user_.A * here_.x;
    for (Index r = 0; r < k_; ++r) {
      const AtSlope now = at_slope(r, here_.s[r]);
      qp.A(p + r, n_ + r) = -std::sqrt(now.inverse / w_[r]);
      qp.b[p + r] = (o_[r] - M_.row(r).dot(here_.x)) + now.t - now.inverse * here_.s[r];
    }
    qp.G = DenseMatrix::Zero(user_.m(), n_ + k_);
    qp.G.leftCols(n_) = user_.G;
    qp.h = user_.h - user_.G * here_.x;
    qp.lb = Vector::Constant(n_ + k_, -infinity);
    qp.ub = Vector::Constant(n_ + k_, infinity);
    qp.lb.head(n_) = user_.lb - here_.x;
    qp.ub.head(n_) = user_.ub - here_.x;
    Settings own;
    own.tolerance = last_.below(nearly) ? exact : of_quadratic;
    const auto found = solve_one(qp, own, {});
    if (!found.x.allFinite() || !found.y.allFinite() || found.status == Status::DualInfeasible ||
        found.status == Status::PrimalInfeasible)
      return false;
    target_.x = (here_.x + found.x.head(n_)).cwiseMax(user_.lb).cwiseMin(user_.ub);
    target_.s = found.y.tail(k_).cwiseQuotient(w_);
    y_ = found.y.head(p);
    z_ = found.z;
    z_box_ = found.z_box.head(n_);
    return true;
  }

  bool search() {
    const double nu = 1.1 * std::max({norm(y_), norm(z_), norm(z_box_), norm(w_.cwiseProduct(target_.s))});
    const Vector dx = target_.x - here_.x;
    double slope = g_.dot(dx) - nu * here_.violation;
    double noise = rounding_of_f * (std::abs(here_.value) + g_.cwiseProduct(here_.x).cwiseAbs().sum());
    for (Index r = 0; r < k_; ++r) {
      const AtSlope now = at_slope(r, here_.s[r]);
      slope += w_[r] * here_.s[r] * now.inverse * (target_.s[r] - here_.s[r]);
      noise += nu * one_row * parts(r, here_.x);
    }
    slope = std::min(slope, 0.0);
    double length = 1;
    for (const InstanceTerm& term : terms_)
      if (!lifted(term)) length = term.largest_step(here_.x, dx, length, workspace_);
    const double before = here_.value + nu * here_.violation;
    for (int halvings = 0; halvings < most_halvings; ++halvings, length *= 0.5) {
      there_.x = length == 1 ? target_.x : Vector(here_.x + length * dx);
      there_.s.resize(k_);
      for (Index r = 0; r < k_; ++r)
        there_.s[r] = moved(r, here_.s[r], here_.s[r] + length * (target_.s[r] - here_.s[r]));
      evaluate(there_, false);
      if (!(there_.value + nu * there_.violation <= before + armijo * length * slope + 1e3 * noise)) continue;
      std::swap(here_, there_);
      evaluate(here_, true);
      return true;
    }
    return false;
  }

  /// Well inside its domain a row has its slope from M x - o: multipliers are only as precise as the largest.
  void settle_rows() {
    bool settled = false;
    for (Index r = 0; r < k_; ++r) {
      const Phi& phi = rows_[at(r)].term->phi();
      const double t = M_.row(r).dot(here_.x) - o_[r];
      const double distance = std::min(t - phi.lower(), phi.upper() - t);
      const double apart = std::abs(t - at_slope(r, here_.s[r]).t);
      if (!(distance > well_inside * parts(r, here_.x)) || !(apart <= hardly_apart * distance)) continue;
      here_.s[r] = value_and_slope(phi, t).second;
      settled = true;
    }
    if (settled) evaluate(here_, true);
  }

  [[nodiscard]] Vector gradient() const { return g_ + M_.transpose() * w_.cwiseProduct(here_.s); }

  [[nodiscard]] Residuals residuals() const {
    const Vector whole = gradient();
    Vector summands = g_.cwiseAbs() + M_.cwiseAbs().transpose() * w_.cwiseProduct(here_.s).cwiseAbs();
    for (Index j = 0; j < n_; ++j) summands[j] = std::copysign(summands[j], here_.x[j]);
    const Vector Px = whole - summands;
    const Vector Ax = user_.A * here_.x;
    const Vector Gx = user_.G * here_.x;
    const Vector Aty = user_.A.transpose() * y_;
    const Vector Gtz = user_.G.transpose() * z_;
    return relative_residuals({.q = summands, .b = user_.b, .h = user_.h, .lb = user_.lb, .ub = user_.ub},
                              {.x = here_.x, .y = y_, .z = z_, .z_box = z_box_},
                              {.Px = Px, .Ax = Ax, .Gx = Gx, .Aty = Aty, .Gtz = Gtz}, norm(H_));
  }

  /// M x - o - t in units of its rounding.
  [[nodiscard]] double link_error() const {
    double worst = 0;
    for (Index r = 0; r < k_; ++r) {
      const double error = std::abs(M_.row(r).dot(here_.x) - o_[r] - at_slope(r, here_.s[r]).t);
      worst = std::max(worst, error / (one_row * parts(r, here_.x) + std::numeric_limits<double>::min()));
    }
    return worst;
  }

  [[nodiscard]] bool good(const Residuals& now) const {
    return now.below(settings_.tolerance) && link_error() <= most_roundings;
  }

  /// Of rows that are not unknowns: those that bounds hold, and those without a weight.
  [[nodiscard]] RowSlopes rows_at_x(const InstanceTerm& term) const {
    const Array zero = Array::Zero(term.rows());
    RowSlopes rows{.value = zero, .first = zero, .second = zero};
    for (Index i = 0; i < term.rows(); ++i) {
      if (term.limited(i)) continue;
      const double t = term.row(i).dot(here_.x) - (term.offset() == nullptr ? 0 : term.offset()[i]);
      const auto [value, slope] = value_and_slope(term.phi(), t);
      rows.value[i] = value;
      rows.first[i] = slope;
    }
    return rows;
  }

  [[nodiscard]] std::optional<LiftedSolution> accepted() const {
    const Residuals now = residuals();
    if (!good(now)) return {};
    LiftedSolution solution{.point = {.x = here_.x, .y = y_, .z = z_, .z_box = z_box_},
                            .value = here_.value,
                            .residuals = now,
                            .steps = steps_ + 1,
                            .gradient = gradient(),
                            .hessian = H_,
                            .rows = std::vector<RowSlopes>(terms_.size())};
    for (std::size_t t = 0; t < terms_.size(); ++t)
      if (lifted(terms_[t])) solution.rows[t] = rows_at_x(terms_[t]);
    for (Index r = 0; r < k_; ++r) {
      const AtSlope now_at = at_slope(r, here_.s[r]);
      const double curvature = std::min(1 / now_at.inverse, most_curvature / std::min(1.0, w_[r]));
      solution.hessian += w_[r] * curvature * M_.row(r).transpose() * M_.row(r);
      if (is_variable(*rows_[at(r)].term)) solution.point.x[rows_[at(r)].row] = now_at.t;
      RowSlopes& rows = solution.rows[at(rows_[at(r)].term - terms_.data())];
      rows.value[rows_[at(r)].row] = now_at.value;
      rows.first[rows_[at(r)].row] = here_.s[r];
      rows.second[rows_[at(r)].row] = curvature;
    }
    return solution;
  }

  const std::vector<InstanceTerm>& terms_;
  const Settings& settings_;
  Index n_, k_ = 0;
  QuadraticProgram<DenseMatrix> user_;
  std::vector<RowOf> rows_{};
  DenseMatrix M_{}, H_{};  // the rows that are lifted; the Hessian of the other terms
  Vector o_{}, w_{}, g_{};
  Vector hidden_{};      // slopes of t as small as rounding
  Vector held_{};        // the gradient of rows that bounds hold
  double constant_ = 0;  // f of rows that cannot move
  State here_{}, there_{}, target_{};
  Vector y_{}, z_{}, z_box_{};
  InstanceTerm::Workspace workspace_{};
  Residuals last_{.primal = infinity, .dual = infinity, .gap = infinity};
  double best_ = infinity;
  int steps_ = 0;
};

}  // namespace

std::optional<LiftedSolution> solve_lifted(const std::vector<InstanceTerm>& terms, const Instance& instance,
                                           const Settings& settings, const Vector& start, double barrier) {
  return Lifted(terms, instance, settings).run(start, barrier);
}

}  // namespace altdiff::detail
