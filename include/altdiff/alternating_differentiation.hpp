#pragma once

#include <altdiff/objective.hpp>
#include <limits>
#include <vector>

namespace altdiff {

/// { x : A x = b, G x <= h, lb <= x <= ub }; conventions as in QuadraticProgram.
template <Matrix M>
struct Constraints {
  M A{};
  Vector b{};
  M G{};
  Vector h{};
  Vector lb{};
  Vector ub{};
};

/// A change of the constraints: one column a direction for vectors; matrices allow a single direction.
/// Members may be empty: no change.
template <Matrix M>
struct ConstraintTangent {
  M A{};
  DenseMatrix b{};
  M G{};
  DenseMatrix h{};
  DenseMatrix lb{};
  DenseMatrix ub{};
};

enum class Stopping {
  Paper,     ///< |x+ - x| < tolerance |x|, the rule of Algorithm 1 (P1); says nothing about the residuals
  Residual,  ///< the relative residuals (R1), (R2) are below tolerance
};

struct AlternatingSettings {
  double rho = 1.0;
  double tolerance = 1e-3;
  Stopping stopping = Stopping::Paper;
  int max_iterations = 100000;
  bool trace = false;
  double time_limit = std::numeric_limits<double>::infinity();  ///< seconds; the last round is kept
};

/// What one round left behind.
struct TraceRow {
  double x_norm, jacobian_norm, primal_residual, dual_residual;
  Index active_rows;
};

struct AlternatingResult {
  Vector x, y, z, z_box;
  DenseMatrix jacobian;  ///< n x k: the derivative of x along each direction
  int iterations = 0;
  bool converged = false;
  std::vector<TraceRow> trace;
};

namespace detail {
template <Matrix M>
[[nodiscard]] AlternatingResult alternating_differentiation(const ErasedObjective<M>& f,
                                                            const Constraints<M>& constraints,
                                                            const ConstraintTangent<M>& tangent,
                                                            const AlternatingSettings& settings);

extern template AlternatingResult alternating_differentiation(const ErasedObjective<DenseMatrix>&,
                                                              const Constraints<DenseMatrix>&,
                                                              const ConstraintTangent<DenseMatrix>&,
                                                              const AlternatingSettings&);
extern template AlternatingResult alternating_differentiation(const ErasedObjective<SparseMatrix>&,
                                                              const Constraints<SparseMatrix>&,
                                                              const ConstraintTangent<SparseMatrix>&,
                                                              const AlternatingSettings&);
}  // namespace detail

/// Algorithm 1 of the paper, with the errata of docs/math.md: fixed rho, zero start, and the Jacobian
/// recursion (D1)-(D4) beside the iteration (F1)-(F4). Only the last round is kept. f may be a type of the
/// user's.
template <Objective F>
[[nodiscard]] AlternatingResult alternating_differentiation(
    const F& f, const Constraints<typename F::Hessian>& constraints, const typename F::Tangent& dtheta,
    const ConstraintTangent<typename F::Hessian>& tangent, const AlternatingSettings& settings = {}) {
  return detail::alternating_differentiation(detail::erased(f, dtheta), constraints, tangent, settings);
}

}  // namespace altdiff
