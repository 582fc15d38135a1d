#include <altdiff/alternating_differentiation.hpp>
#include <cmath>

#include "linalg/augmented_system.hpp"
#include "linalg/norms.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"
#include "problem/checks.hpp"
#include "problem/one_sided_rows.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_newton_steps = 100;
constexpr double newton_tolerance = 1e-12;
constexpr double armijo = 1e-4;

/// Iterate and Jacobian side by side. C stands for the one-sided rows [G; -I; I] throughout, h for their
/// limits.
template <Matrix M>
class AlternatingDifferentiation {
 public:
  AlternatingDifferentiation(const ErasedObjective<M>& f, const Constraints<M>& constraints,
                             const ConstraintTangent<M>& tangent, Index k,
                             const AlternatingSettings& settings)
      : f_(f),
        settings_(settings),
        rho_(settings.rho),
        A_(constraints.A.rows() > 0 ? constraints.A : M(0, f.start().size())),
        b_(constraints.b),
        C_(constraints, f.start().size()),
        dA_(tangent.A),
        dG_(C_.pick(tangent.G)),
        db_(tangent.b.size() > 0 ? tangent.b : DenseMatrix::Zero(b_.size(), k)),
        dh_(C_.stack(tangent, k)),
        H_(initial_hessian()),
        system_(H_, A_, C_.G()),
        penalties_{.sigma = 0,
                   .A = Vector::Constant(b_.size(), rho_),
                   .G = Vector::Constant(C_.G().rows(), rho_),
                   .box = rho_ * C_.bounds_per_variable()},
        x_(f.start()),
        previous_x_(x_) {
    const Index n = x_.size();
    s_ = z_ = Cx_h_ = pull_C_ = Vector::Zero(C_.count());
    y_ = Ax_b_ = pull_A_ = Vector::Zero(b_.size());
    gradient_ = step_ = trial_ = Vector::Zero(n);
    dx_ = DenseMatrix::Zero(n, k);
    ds_ = dz_ = dCx_ = DenseMatrix::Zero(C_.count(), k);
    dy_ = dAx_ = DenseMatrix::Zero(b_.size(), k);
    workspace_.resize(system_.workspace_size());
  }

  AlternatingResult run() {
    AlternatingResult result;
    try {
      iterate(result);
    } catch (const OutOfTime&) {
      x_ = previous_x_;  // the rest of a round stands unchanged until its x is there
    }
    result.x = x_;
    result.y = y_;
    C_.unstack(z_, result.z, result.z_box);
    result.jacobian = dx_;
    return result;
  }

 private:
  void iterate(AlternatingResult& result) {
    update_products();
    bool ok = factorise();
    require(ok,
            "K = P + rho A'A + rho G'G is not positive definite: P has a negative direction, or neither P "
            "nor the "
            "constraints hold x in some direction; solve_qp copes with the latter");
    while (ok && !result.converged && result.iterations < settings_.max_iterations && !out_of_time()) {
      previous_x_ = x_;
      ok = update_x();
      differentiate_x();
      update_s();
      differentiate_s();
      update_y();
      update_z();
      ++result.iterations;
      result.converged = ok && stop(result);
    }
  }

  [[nodiscard]] M initial_hessian() const {
    M H;
    f_.hessian(f_.start(), H);
    return H;
  }

  /// K = H + rho A'A + rho C'C                                                                        (K1)
  bool factorise() {
    f_.hessian(x_, H_);
    return system_.factorise(H_, A_, C_.G(), penalties_);
  }

  void update_products() {
    Ax_b_ = -b_;
    add_product(1, A_, x_, Ax_b_);
    Cx_h_ = -C_.h();
    C_.add_product(1, x_, Cx_h_);
  }

  /// The multipliers that A and C pull x with, penalty included.
  void update_pull() {
    pull_A_ = y_ + rho_ * Ax_b_;
    pull_C_ = z_ + rho_ * (Cx_h_ + s_);
  }

  /// grad_x L = grad f + A'(y + rho (A x - b)) + C'(z + rho (C x + s - h))
  void lagrangian_gradient() {
    f_.gradient(x_, gradient_);
    gradient_scale_ = 1 + norm(gradient_);
    update_pull();
    add_transposed_product(1, A_, pull_A_, gradient_);
    C_.add_transposed_product(1, pull_C_, gradient_);
  }

  [[nodiscard]] double lagrangian() const {
    return f_.value(x_) + y_.dot(Ax_b_) + z_.dot(Cx_h_ + s_) +
           0.5 * rho_ * (Ax_b_.squaredNorm() + (Cx_h_ + s_).squaredNorm());
  }

  /// (F1) by damped Newton; for a quadratic f one step with the one factor is exact.
  bool update_x() {
    for (int i = 0; i < max_newton_steps; ++i) {
      lagrangian_gradient();
      if (!f_.constant_hessian) {
        if (i > 0 && norm(gradient_) <= newton_tolerance * gradient_scale_) break;
        if (!factorise()) return false;
      }
      step_ = -gradient_;
      system_.solve(step_, workspace_);
      const double decrement = -gradient_.dot(step_);
      const double length = f_.constant_hessian ? 1 : step_length(decrement);
      if (length == 0) break;  // at the limit of rounding
      x_ += length * step_;    // (F1)
      update_products();
      if (f_.constant_hessian) break;
    }
    update_pull();
    return x_.allFinite();
  }

  /// Armijo from the largest step that stays in the domain; zero if rounding hides any descent.
  double step_length(double decrement) {
    const double value = lagrangian();
    const double noise = 1e-15 * (1 + std::abs(value));
    double length = std::min(1.0, f_.largest_step(x_, step_));
    if (decrement <= 1e3 * noise) return length;  // descent is below what L can show; Newton's step is right
    trial_ = x_;
    for (int halvings = 0; halvings < 50; ++halvings, length *= 0.5) {
      x_ = trial_ + length * step_;
      update_products();
      const bool descends = lagrangian() <= value - armijo * length * decrement + noise;
      x_ = trial_;
      if (descends) return length;
    }
    update_products();
    return 0;
  }

  /// K dx+ = -[d(grad f) + dA'(y + rho (A x - b)) + dG'(z + rho (C x + s - h))
  ///           + A'(dy + rho (dA x - db)) + C'(dz + rho (ds + dG x - dh))]                               (D1)
  /// with the factor that the last Newton step made, and y, z, s still of the round before.
  void differentiate_x() {
    dx_.setZero();
    if (f_.directions > 0 || f_.one_direction) f_.add_cross(x_, dx_);
    dAx_ = -db_;
    dCx_ = -dh_;
    if (dA_.size() > 0) {
      add_product(1, dA_, x_, dAx_);
      add_transposed_product(1, dA_, pull_A_, dx_);
    }
    if (dG_.size() > 0) {
      add_product(1, dG_, x_, dCx_.topRows(dG_.rows()));
      add_transposed_product(1, dG_, pull_C_.head(dG_.rows()), dx_);
    }
    dy_ += rho_ * dAx_;
    dz_ += rho_ * (ds_ + dCx_);
    add_transposed_product(1, A_, dy_, dx_);
    C_.add_transposed_product(1, dz_, dx_);
    dy_ -= rho_ * dAx_;
    dz_ -= rho_ * (ds_ + dCx_);
    dx_ = -dx_;
    system_.solve(dx_, workspace_);  // (D1)
    add_product(1, A_, dx_, dAx_);   // now d(A x - b)
    C_.add_product(1, dx_, dCx_);    // now d(C x - h)
  }

  void update_s() { s_ = (-Cx_h_ - z_ / rho_).cwiseMax(0); }  // (F2)

  /// Zero where s+ = 0: the derivative of max(0, .) there, not the one that the paper prints.
  void differentiate_s() {
    ds_ = -(dz_ / rho_ + dCx_);
    for (Index i = 0; i < s_.size(); ++i)
      if (!(s_[i] > 0)) ds_.row(i).setZero();  // (D2)
  }

  void update_y() {
    y_ += rho_ * Ax_b_;  // (F3)
    dy_ += rho_ * dAx_;  // (D3)
  }

  void update_z() {
    z_ += rho_ * (Cx_h_ + s_);   // (F4)
    dz_ += rho_ * (dCx_ + ds_);  // (D4)
  }

  bool stop(AlternatingResult& result) {
    const bool wants_residuals = settings_.trace || settings_.stopping == Stopping::Residual;
    const double primal = wants_residuals ? primal_residual() : 0;
    const double dual = wants_residuals ? dual_residual() : 0;
    if (settings_.trace)
      result.trace.push_back({.x_norm = x_.norm(),
                              .jacobian_norm = dx_.norm(),
                              .primal_residual = primal,
                              .dual_residual = dual,
                              .active_rows = (s_.array() == 0).count()});
    if (settings_.stopping == Stopping::Residual)
      return primal < settings_.tolerance && dual < settings_.tolerance;
    trial_ = x_ - previous_x_;
    return trial_.norm() < settings_.tolerance * previous_x_.norm();  // (P1)
  }

  [[nodiscard]] double primal_residual() const {
    double scale = 1;
    double violation = 0;
    for (Index i = 0; i < b_.size(); ++i) {
      scale = std::max({scale, std::abs(b_[i]), std::abs(Ax_b_[i] + b_[i])});
      violation = std::max(violation, std::abs(Ax_b_[i]));
    }
    for (Index i = 0; i < s_.size(); ++i) {
      scale = std::max(scale, std::abs(Cx_h_[i] + C_.h()[i]));
      violation = std::max(violation, Cx_h_[i]);
    }
    return violation / scale;  // (R1)
  }

  double dual_residual() {
    f_.gradient(x_, gradient_);
    double scale = std::max(1.0, norm(gradient_));
    trial_.setZero();
    add_transposed_product(1, A_, y_, trial_);
    scale = std::max(scale, norm(trial_));
    gradient_ += trial_;
    trial_.setZero();
    C_.add_transposed_product(1, z_, trial_);
    scale = std::max(scale, norm(trial_));
    gradient_ += trial_;
    return norm(gradient_) / scale;  // (R2)
  }

  const ErasedObjective<M>& f_;
  const AlternatingSettings& settings_;
  double rho_;
  M A_;
  Vector b_;
  OneSidedRows<M> C_;
  const M& dA_;
  M dG_;
  DenseMatrix db_, dh_;
  M H_;
  AugmentedSystem<M> system_;
  Penalties penalties_;
  Vector x_, previous_x_, s_, y_, z_;  // the last round
  DenseMatrix dx_, ds_, dy_, dz_;      // and its derivative
  Vector Ax_b_, Cx_h_, pull_A_, pull_C_, gradient_, step_, trial_, workspace_;
  DenseMatrix dAx_, dCx_;
  double gradient_scale_ = 1;
};

/// The number of directions; all members that are given must agree on it.
template <Matrix M>
Index directions(const ErasedObjective<M>& f, const Constraints<M>& constraints,
                 const ConstraintTangent<M>& tangent, Index n) {
  Index k = f.directions;
  require(f.rows < 0 || f.rows == n, "the tangent of the objective must have ", n, " rows");
  const auto agree = [&k](const DenseMatrix& block, Index rows, const std::string& name) {
    if (block.size() == 0) return;
    require(block.rows() == rows, "the tangent of ", name, " must have ", rows, " rows");
    require(k < 0 || k == block.cols(), "the tangent of ", name, " has another number of columns");
    k = block.cols();
  };
  agree(tangent.b, constraints.b.size(), "b");
  agree(tangent.h, constraints.h.size(), "h");
  agree(tangent.lb, n, "lb");
  agree(tangent.ub, n, "ub");
  bool has_matrix = f.one_direction;
  const auto agree_matrix = [&](const M& X, Index rows, const std::string& name) {
    if (X.size() == 0) return;
    require(X.rows() == rows && X.cols() == n, "the tangent of ", name, " must have the shape of ", name);
    has_matrix = true;
  };
  agree_matrix(tangent.A, constraints.b.size(), "A");
  agree_matrix(tangent.G, constraints.h.size(), "G");
  require(!has_matrix || k <= 1, "a tangent of P, A or G allows one direction only");
  return has_matrix ? 1 : std::max<Index>(k, 0);
}

}  // namespace

template <Matrix M>
AlternatingResult alternating_differentiation(const ErasedObjective<M>& f, const Constraints<M>& constraints,
                                              const ConstraintTangent<M>& tangent,
                                              const AlternatingSettings& settings) {
  require(settings.rho > 0 && std::isfinite(settings.rho), "rho must be positive and finite");
  require(settings.tolerance > 0, "tolerance must be positive");
  require(settings.max_iterations >= 0, "max_iterations must not be negative");
  require(settings.time_limit > 0, "time_limit must be positive, got ", settings.time_limit);
  const Watch watch({}, settings.time_limit);
  const Index n = f.start().size();
  check_constraints<M>(constraints.G, constraints.h, constraints.A, constraints.b, constraints.lb,
                       constraints.ub, n);
  const ScopedBlasThreads threads(n, 0);
  const Index k = directions<M>(f, constraints, tangent, n);
  return AlternatingDifferentiation<M>(f, constraints, tangent, k, settings).run();
}

template AlternatingResult alternating_differentiation(const ErasedObjective<DenseMatrix>&,
                                                       const Constraints<DenseMatrix>&,
                                                       const ConstraintTangent<DenseMatrix>&,
                                                       const AlternatingSettings&);
template AlternatingResult alternating_differentiation(const ErasedObjective<SparseMatrix>&,
                                                       const Constraints<SparseMatrix>&,
                                                       const ConstraintTangent<SparseMatrix>&,
                                                       const AlternatingSettings&);

}  // namespace altdiff::detail
