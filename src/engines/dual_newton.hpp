#pragma once

#include <altdiff/settings.hpp>

#include "engines/active_set/engine.hpp"
#include "linalg/memory.hpp"
#include "linalg/small.hpp"
#include "objectives/phi.hpp"

namespace altdiff::detail {

/// minimise q'x + sum_j w_j phi(x_j - o_j) over the constraints of an instance, whose P and q are not read.
struct SeparableProgram {
  Instance constraints{};
  Phi phi{};
  const double* weight = nullptr;  // positive; null: one
  const double* offset = nullptr;  // null: zero
  Vector q{};
};

/// Newton's method on the dual of a separable program, in constraint space. With C = [A; G] and lambda = (y,
/// z)
///
///     x(lambda) = clip(o + phi'^-1(-(q + C'lambda) / w), lb, ub)                                      (N4)
///     M d = C x - c on the rows that hold,   M = C_F D C_F',   D = 1 / (w phi''), F the variables inside
///     (N5)
///
/// so that only the constraints are ever violated. Where that does not lead to the solution, w is multiplied
/// by a temperature that falls to one, and the solutions on the way show the direction (N8). Rows enter and
/// leave within a step by their signs, on the same M. Takes no memory after construction.
class DualNewton {
 public:
  DualNewton(Index n, Index m, Index p);

  /// False: not solved within a few steps; another method should.
  [[nodiscard]] bool run(const SeparableProgram& program, const VectorView& y, const VectorView& z);

  Vector x, y, z, z_box;
  Vector D;                   ///< inverse of the Hessian's diagonal; zero at a bound
  Vector side;                ///< +1 at ub, -1 at lb, 0 inside
  std::vector<Index> rows{};  ///< that hold: equalities, and p + i for the rows of G
  double objective = 0, margin = 0;
  Residuals residuals{};
  int steps = 0;
  int refinements = 0;  ///< that a solve with `factor` needs

  /// The Hessian at the bounds that hold, zero elsewhere and where it is infinite.
  [[nodiscard]] Vector bound_curvature() const;

  /// M on `rows`, factorised, or nearly, which `refinements` make good; false if they are dependent, or
  /// nearly. `more`: added to the diagonal, relative.
  [[nodiscard]] bool factorise(double more = 0);
  [[nodiscard]] ConstBlock factor() const { return factor_.topLeftCorner(count(), count()); }

 private:
  struct Trial {
    Vector x, slope, Ax, Gx;       // A x - b and G x - h
    Eigen::ArrayXd first, second;  // derivatives of phi
    double value = 0, size = 0;    // of the dual, and of its parts
  };

  [[nodiscard]] Index count() const { return static_cast<Index>(rows.size()); }
  [[nodiscard]] bool in_time() const;  ///< for a step
  [[nodiscard]] double multiplier(Index row) const { return row < p_ ? y[row] : z[row - p_]; }
  [[nodiscard]] double row_value(const Trial& trial, Index row) const {
    return row < p_ ? trial.Ax[row] : trial.Gx[row - p_];
  }
  /// A row of C = [A; G].
  [[nodiscard]] Eigen::Map<const Vector> row_of_C(Index row) const {
    const MatricesView& data = program_->constraints.matrices;
    return {row < p_ ? data.A + row * n_ : data.G + (row - p_) * n_, n_};
  }
  void load(const SeparableProgram& program);
  [[nodiscard]] bool climb(double accuracy, int most_steps);
  [[nodiscard]] double of_rounding() const;
  [[nodiscard]] bool cool();
  void set_temperature(double temperature);
  void foresee();
  void evaluate(const Vector& y_at, const Vector& z_at, Trial& trial);
  [[nodiscard]] static double limit_product(const Vector& multipliers, const VectorView& limits);
  [[nodiscard]] double violation(const Trial& trial) const;
  void set_derivatives(Trial& trial);
  void choose_rows();
  void set_curvature();
  void form_M();
  [[nodiscard]] bool find_step(bool rough);
  [[nodiscard]] bool solve_on_set();
  [[nodiscard]] bool solve_with_M();
  void solve_with_factor(Index size);
  void remember_factor();
  [[nodiscard]] double change_of_M() const;
  [[nodiscard]] bool step_by_last_factor();
  [[nodiscard]] bool step_on_rows();
  void hold_all();
  void list_set();
  [[nodiscard]] bool change_set();
  [[nodiscard]] double advance(bool rough);
  [[nodiscard]] double climb_along_step();
  [[nodiscard]] bool damp(double length);
  [[nodiscard]] double search(double slope);
  void correct();
  void hold_active_rows();
  void finish();
  void measure_margin();

  Index n_, m_, p_;
  const SeparableProgram* program_ = nullptr;
  std::vector<const double*> row_data_{};  // of `rows`
  PooledMatrix scaled_;                    // these, times the root of D
  PooledMatrix M_, factor_;
  std::vector<Index> factor_rows_{};  // of the last factor that may serve again, and D in it
  Vector factor_D_;
  Vector weight_, offset_, lower_, upper_, pull_, root_;
  Vector step_, right_, kept_;      // of the multipliers of `rows`
  std::vector<std::uint8_t> held_;  // which of `rows` are in the set of this step
  std::vector<Index> set_;          // those, by their places in `rows`
  Vector next_y_, next_z_;
  Vector known_y_, known_z_, drift_y_, drift_z_;  // at a temperature, and their change with it
  double temperature_ = 1;
  double damping_ = 0;  // mu, and the diagonal that it multiplies
  Vector row_sizes_;
  Trial here_, there_;
  Eigen::ArrayXd t_, value_;
};

}  // namespace altdiff::detail
