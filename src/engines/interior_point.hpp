#pragma once

#include <altdiff/problem.hpp>
#include <altdiff/settings.hpp>

#include "engines/newton_system.hpp"
#include "problem/certificates.hpp"

namespace altdiff::detail {

/// Proximal primal-dual interior point for P >= 0. With E and C as in NewtonSystem, every iteration is a
/// Newton step on
///
///     P x + q + rho (x - xi) + E'y + C'z = 0
///     E x - e - delta (y - lambda) = 0                                                               (I1)
///     C x - c + s - delta (z - nu) = 0,   s o z = sigma mu 1
///
/// The proximal terms keep the linear system quasi-definite, whatever P and however redundant the rows; their
/// centres xi, lambda, nu follow the iterates, and rho, delta vanish. Eliminating s leaves (I2) with w = s /
/// z.
template <Matrix M>
class InteriorPoint {
 public:
  enum class Outcome {
    Reached,
    Separated,
    Stalled,
    MaxIterations,
    TimeLimit,
    PrimalInfeasible,
    DualInfeasible
  };

  /// `qp` is scaled and normalised, and outlives the engine; `system` is one of its. rho stays above
  /// `least_rho`.
  InteriorPoint(const QuadraticProgram<M>& qp, const Settings& settings, AugmentedSystem<M> system,
                double least_rho = 0);

  /// Iterates until primal and dual residual and gap are below `target`.
  [[nodiscard]] Outcome run(double target);
  /// The same, but stops as soon as nobody can doubt which constraints are active; `run` goes on from there.
  [[nodiscard]] Outcome run_until_separated(double target);

  /// The best iterate.
  [[nodiscard]] Point point() const { return newton_.as_point(best_); }
  [[nodiscard]] int iterations() const { return iterations_; }
  /// For a program whose ray turned out to be none: P is nearly flat along it, but not flat.
  void ignore_rays() { ignores_rays_ = true; }
  /// What proves that there is no solution.
  [[nodiscard]] const Point& proof() const { return proof_; }
  [[nodiscard]] AugmentedSystem<M>& system() { return newton_.system(); }

 private:
  using Unknowns = typename NewtonSystem<M>::Unknowns;
  struct Measure {
    double primal, dual, gap;
    [[nodiscard]] double worst() const;  // NaN if one is
  };

  [[nodiscard]] Outcome iterate(double target, bool until_separated);
  [[nodiscard]] Outcome iterate_in_time(double target, bool until_separated);
  [[nodiscard]] bool separated() const;
  [[nodiscard]] bool start();
  [[nodiscard]] Measure measure();
  [[nodiscard]] bool solve_newton(const Vector& complementarity, double accuracy);
  [[nodiscard]] bool step();
  void move_centres(const Measure& before, const Measure& after, double mu_before);
  void note_progress(const Measure& now);
  [[nodiscard]] double mu() const;
  [[nodiscard]] bool certified(Outcome& outcome);
  void report(const Measure& now) const;

  const QuadraticProgram<M>& qp_;
  const Settings& settings_;
  NewtonSystem<M> newton_;
  CertificateCheck<M> certificates_;
  Unknowns v_, centre_, best_;
  Vector s_;                 // slacks of C
  Unknowns residual_;        // of (I1) without proximal terms, negative
  Unknowns right_side_, d_;  // of a Newton step
  Vector ds_, w_, target_, t_;
  double rho_, delta_;  // proximal weights
  double least_rho_;
  double weight_floor_;
  Measure least_;  // of each measure on its own
  double best_worst_;
  double objective_ = 0;
  double alpha_primal_ = 0, alpha_dual_ = 0;
  bool started_ = false;
  bool ignores_rays_ = false;
  int iterations_ = 0, idle_ = 0, held_back_ = 0;
  Point proof_;
};

extern template class InteriorPoint<DenseMatrix>;
extern template class InteriorPoint<SparseMatrix>;

}  // namespace altdiff::detail
