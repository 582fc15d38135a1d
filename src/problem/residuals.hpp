#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// What SOLVED means: all three below tolerance. Relative, see docs/math.md.
struct Residuals {
  double primal = 0;  ///< (R1)
  double dual = 0;    ///< (R2)
  double gap = 0;     ///< (R3)

  [[nodiscard]] double worst() const;
  /// False also where a residual is NaN.
  [[nodiscard]] bool below(double tolerance) const;
};

/// Computes residuals of a normalised program; keeps its workspace, so that a call takes no memory.
template <Matrix M>
class ResidualCheck {
 public:
  explicit ResidualCheck(const QuadraticProgram<M>& qp);
  [[nodiscard]] Residuals operator()(const QuadraticProgram<M>& qp, const Point& v);

 private:
  double primal(const QuadraticProgram<M>& qp, const Point& v);
  double dual(const QuadraticProgram<M>& qp, const Point& v);
  [[nodiscard]] double gap(const QuadraticProgram<M>& qp, const Point& v) const;

  double floor_;  // of the scale in (R2) and (R3)
  Vector Px_, Ax_, Gx_, Aty_, Gtz_;
};

template <Matrix M>
[[nodiscard]] double objective(const QuadraticProgram<M>& qp, const Vector& x);

extern template class ResidualCheck<DenseMatrix>;
extern template class ResidualCheck<SparseMatrix>;
extern template double objective(const QuadraticProgram<DenseMatrix>&, const Vector&);
extern template double objective(const QuadraticProgram<SparseMatrix>&, const Vector&);

}  // namespace altdiff::detail
