#include "smooth/lifted.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/grouping.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "problem/checks.hpp"
#include "problem/deadline.hpp"
#include "solve_one.hpp"

namespace altdiff::detail {

namespace {

using Array = Eigen::ArrayXd;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double of_quadratic = 1e-9;  // tolerance of the quadratic programs
constexpr double armijo = 1e-4;
constexpr double rounding_of_f = 1e-14;  // relative to its parts
constexpr double one_row = 1e-15;        // rounding of M x - o, relative to its parts
constexpr double exact = 1e-13;          // a residual that a step could hardly lower
constexpr double most_curvature = 1e8;   // of a row in the Hessian for derivatives: beyond it, an equality
constexpr double most_roundings = 10;    // of M x - o that t may differ by
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
      for (Index j = 0; lifted(term) && term.map() == nullptr && j < n_; ++j)
        if (term.held(j)) held_[j] += (term.weight() == nullptr ? 1 : term.weight()[j]) * end_slope(term, j);
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

  std::optional<LiftedSolution> run(const Vector& start) {
    if (k_ == 0 || !start.allFinite()) return {};
    begin(start);
    for (int idle = 0; steps_ < most_steps; ++steps_) {
      if (settings_.poll) settings_.poll();
      if (deadline_.passed() || !find_step()) return {};
      if (!search()) return accepted();
      const Residuals now = residuals();
      const double error = std::max(now.worst(), link_error() * exact);
      idle = error < 0.5 * best_ ? 0 : idle + 1;
      best_ = std::min(best_, error);
      if (error <= exact || (idle >= patience && good(now))) return accepted();
    }
    return {};
  }

 private:
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
  /// phi' of a row that bounds hold, which has no map.
  [[nodiscard]] double end_slope(const InstanceTerm& term, Index j) const {
    const double t = user_.ub[j] - (term.offset() == nullptr ? 0 : term.offset()[j]);
    return t == term.phi().lower() ? -Phi::end_slope : Phi::end_slope;
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

  void begin(const Vector& start) {
    here_.x = start;
    here_.s.resize(k_);
    hidden_.resize(k_);
    for (Index r = 0; r < k_; ++r) {
      const Phi& phi = rows_[at(r)].term->phi();
      const double rounding = std::max(one_row * parts(r, start), 1e-300);
      const double t =
          std::clamp(M_.row(r).dot(start) - o_[r], phi.lower() + rounding, phi.upper() - rounding);
      Array value;
      Array first;
      Array second;
      phi.evaluate(Array::Constant(1, t), value, first, second);
      here_.s[r] = first[0];
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
    state.value = 0;
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

  /// The quadratic program of (N11) in x and rho, with t = t_k - D s + sqrt(D) rho, D = 1 / (w phi'').
  bool find_step() {
    const Index p = user_.p();
    QuadraticProgram<DenseMatrix> qp;
    qp.P = DenseMatrix::Identity(n_ + k_, n_ + k_);
    qp.P.topLeftCorner(n_, n_) = H_;
    qp.q = Vector::Zero(n_ + k_);
    qp.q.head(n_) = g_ - H_ * here_.x;
    qp.A = DenseMatrix::Zero(p + k_, n_ + k_);
    qp.A.topLeftCorner(p, n_) = user_.A;
    qp.A.bottomLeftCorner(k_, n_) = M_;
    qp.b.resize(p + k_);
    qp.b.head(p) = user_.b;
    for (Index r = 0; r < k_; ++r) {
      const AtSlope now = at_slope(r, here_.s[r]);
      qp.A(p + r, n_ + r) = -std::sqrt(now.inverse / w_[r]);
      qp.b[p + r] = o_[r] + now.t - now.inverse * here_.s[r];
    }
    qp.G = DenseMatrix::Zero(user_.m(), n_ + k_);
    qp.G.leftCols(n_) = user_.G;
    qp.h = user_.h;
    qp.lb = Vector::Constant(n_ + k_, -infinity);
    qp.ub = Vector::Constant(n_ + k_, infinity);
    qp.lb.head(n_) = user_.lb;
    qp.ub.head(n_) = user_.ub;
    Settings own;
    own.tolerance = std::min(of_quadratic, settings_.tolerance);
    own.time_limit = deadline_.rest();
    own.poll = settings_.poll;
    const auto found = solve_one(qp, own, {});
    if (!found.x.allFinite() || !found.y.allFinite() || found.status == Status::DualInfeasible ||
        found.status == Status::PrimalInfeasible)
      return false;
    target_.x = found.x.head(n_).cwiseMax(user_.lb).cwiseMin(user_.ub);
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

  [[nodiscard]] Vector gradient() const { return g_ + M_.transpose() * w_.cwiseProduct(here_.s); }

  [[nodiscard]] Residuals residuals() const {
    const Vector none = Vector::Zero(n_);
    const Vector Px = gradient();
    const Vector Ax = user_.A * here_.x;
    const Vector Gx = user_.G * here_.x;
    const Vector Aty = user_.A.transpose() * y_;
    const Vector Gtz = user_.G.transpose() * z_;
    return relative_residuals({.q = none, .b = user_.b, .h = user_.h, .lb = user_.lb, .ub = user_.ub},
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
      if (term.held(i)) rows.first[i] = end_slope(term, i);
      if (term.present(i)) continue;
      const double t = term.row(i).dot(here_.x) - (term.offset() == nullptr ? 0 : term.offset()[i]);
      Array value;
      Array first;
      Array second;
      term.phi().evaluate(Array::Constant(1, t), value, first, second);
      if (!std::isfinite(value[0]) || !std::isfinite(first[0])) continue;
      rows.value[i] = value[0];
      rows.first[i] = first[0];
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
      const double curvature = std::min(1 / now_at.inverse, most_curvature);
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
  const Deadline deadline_{settings_.time_limit};
  Index n_, k_ = 0;
  QuadraticProgram<DenseMatrix> user_;
  std::vector<RowOf> rows_{};
  DenseMatrix M_{}, H_{};  // the rows that are lifted; the Hessian of the other terms
  Vector o_{}, w_{}, g_{};
  Vector hidden_{};  // slopes of t as small as rounding
  Vector held_{};    // the gradient of rows that bounds hold
  State here_{}, there_{}, target_{};
  Vector y_{}, z_{}, z_box_{};
  InstanceTerm::Workspace workspace_{};
  double best_ = infinity;
  int steps_ = 0;
};

}  // namespace

std::optional<LiftedSolution> solve_lifted(const std::vector<InstanceTerm>& terms, const Instance& instance,
                                           const Settings& settings, const Vector& start) {
  return Lifted(terms, instance, settings).run(start);
}

}  // namespace altdiff::detail
