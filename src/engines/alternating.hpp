#pragma once

#include <altdiff/problem.hpp>
#include <altdiff/settings.hpp>

#include "linalg/augmented_system.hpp"
#include "problem/certificates.hpp"
#include "problem/residuals.hpp"

namespace altdiff::detail {

/// The paper's ADMM (F1)-(F4) with a penalty that adapts, over inequalities and two-sided bounds.
/// Can be stopped at any accuracy and resumed. Takes no memory after construction.
template <Matrix M>
class AlternatingEngine {
 public:
  enum class Outcome { Reached, MaxIterations, TimeLimit, PrimalInfeasible, DualInfeasible, NumericalError };

  /// `qp` is scaled and outlives the engine.
  AlternatingEngine(const QuadraticProgram<M>& qp, const Settings& settings, const Point& initial);

  /// Rounds until the primal and the dual residual are below `target`.
  [[nodiscard]] Outcome advance(double target);

  [[nodiscard]] const Point& point() const { return v_; }
  [[nodiscard]] int rounds() const { return rounds_; }
  /// Change of the point between the last two checks: where there is no solution, it tends to a certificate.
  [[nodiscard]] const Point& drift() const { return drift_; }
  /// Whether there is a factor: one that was begun too late is lost.
  [[nodiscard]] bool factorised() const { return factorised_; }
  /// The factor of the last round, for the differentiation to inherit.
  [[nodiscard]] AugmentedSystem<M> release_system() { return std::move(system_); }

 private:
  void set_penalty(double rho);
  [[nodiscard]] bool factorise();
  [[nodiscard]] Outcome advance_in_time(double target);
  void round();
  void update_x();
  void update_y();
  void update_z();
  void update_box();
  void note_drift();
  [[nodiscard]] double disagreement();
  [[nodiscard]] bool adapt_penalty(const Residuals& residuals);
  void report(const Residuals& residuals) const;

  const QuadraticProgram<M>& qp_;
  const Settings& settings_;
  AugmentedSystem<M> system_;
  ResidualCheck<M> residuals_of_;
  CertificateCheck<M> certificates_;
  Penalties R_;
  Vector box_weight_;  // penalty of a bound relative to rho; zero: a free variable
  Point v_, step_;     // iterate; solution of one round's linear system
  Vector t_G_, t_;     // copies: of G x below h, of x within its bounds
  Point previous_, drift_;
  Vector workspace_;
  double rho_;
  int rounds_ = 0;
  int next_adaptation_ = 0;
  int adaptation_gap_ = 20;
  bool factorised_ = false;
};

extern template class AlternatingEngine<DenseMatrix>;
extern template class AlternatingEngine<SparseMatrix>;

}  // namespace altdiff::detail
