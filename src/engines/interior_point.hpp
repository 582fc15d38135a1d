#pragma once

#include <altdiff/problem.hpp>
#include <altdiff/settings.hpp>
#include <chrono>

#include "linalg/augmented_system.hpp"
#include "problem/certificates.hpp"

namespace altdiff::detail {

/// Proximal primal-dual interior point for P >= 0. With C = [G; -I_l; I_u] and E = [A; I_f] (bounds that do not
/// exist are left out, variables with lb = ub are equalities), every iteration is a Newton step on
///
///     P x + q + rho (x - xi) + E'y + C'z = 0
///     E x - e - delta (y - lambda) = 0                                                               (I1)
///     C x - c + s - delta (z - nu) = 0,   s o z = sigma mu 1
///
/// The proximal terms keep the linear system quasi-definite, whatever P and however redundant the rows; their
/// centres xi, lambda, nu follow the iterates, and rho, delta vanish. Eliminating s leaves (K2) with the
/// penalties 1/delta on E and 1/(delta + s/z) on C: the same system as an alternating round.
template <Matrix M>
class InteriorPoint {
 public:
  enum class Outcome { Reached, Stalled, MaxIterations, TimeLimit, PrimalInfeasible, DualInfeasible };

  /// `qp` is scaled and normalised, and outlives the engine.
  InteriorPoint(const QuadraticProgram<M>& qp, const Settings& settings, AugmentedSystem<M> system);

  /// Iterates until primal and dual residual and gap are below `target`.
  [[nodiscard]] Outcome run(double target);

  /// The best iterate: z_box is positive at ub, negative at lb.
  [[nodiscard]] Point point() const;
  [[nodiscard]] int iterations() const { return iterations_; }
  [[nodiscard]] AugmentedSystem<M> release_system() { return std::move(system_); }
  /// What proves that there is no solution.
  [[nodiscard]] const Point& proof() const { return proof_; }

 private:
  /// Of x, of the rows of E, of the rows of C, and of the slacks of C.
  struct Iterate {
    Vector x, y, z, s;
  };
  struct Measure {
    double primal = 0, dual = 0, gap = 0;
    [[nodiscard]] double worst() const { return std::max({primal, dual, gap}); }
  };

  void add_E(double alpha, const Vector& x, Vector& y) const;             // y += alpha E x
  void add_E_transposed(double alpha, const Vector& y, Vector& x) const;  // x += alpha E'y
  void add_C(double alpha, const Vector& x, Vector& z) const;
  void add_C_transposed(double alpha, const Vector& z, Vector& x) const;

  [[nodiscard]] bool start();
  [[nodiscard]] Measure measure();
  [[nodiscard]] bool factorise(double floor);
  [[nodiscard]] bool factorise();
  void solve_factor(Iterate& d);
  void subtract_product(const Iterate& d, Iterate& r) const;
  [[nodiscard]] double refine(Iterate& d);
  [[nodiscard]] bool solve_newton(const Vector& complementarity, Iterate& d);
  [[nodiscard]] bool step();
  void move_centres(const Measure& before, const Measure& after, double mu_before);
  [[nodiscard]] double mu() const;
  [[nodiscard]] bool certified(Outcome& outcome);
  [[nodiscard]] bool out_of_time() const;
  void report(const Measure& measured) const;

  const QuadraticProgram<M>& qp_;
  const Settings& settings_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<Index> fixed_, lower_, upper_;
  Index n_, p_, m_;
  Vector e_, c_;  // right-hand sides of E and C
  AugmentedSystem<M> system_;
  CertificateCheck<M> certificates_;
  Penalties R_;
  Vector R_y_, R_z_;       // penalties of all rows of E and of C
  double rho_, delta_;     // proximal weights
  double floor_;           // that the factorisation adds to them
  double rho_f_ = 0, delta_f_ = 0;  // with the floor
  Iterate v_, centre_, best_;
  Iterate residual_;       // of (I1) without proximal terms, negative; s unused
  Vector w_;               // s / z
  Iterate d_, rhs_, r_, correction_;
  Vector target_;  // of s o z
  Vector workspace_, box_;
  Point proof_;
  double best_worst_;
  double alpha_primal_ = 0, alpha_dual_ = 0;
  int iterations_ = 0;
  double weight_floor_ = 1e-10;
  int idle_ = 0;
  int held_back_ = 0;
};

extern template class InteriorPoint<DenseMatrix>;
extern template class InteriorPoint<SparseMatrix>;

}  // namespace altdiff::detail
