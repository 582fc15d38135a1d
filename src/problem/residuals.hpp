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

using VectorView = Eigen::Ref<const Vector>;

/// Of (G1): below, derivatives may have several values.
inline constexpr double degenerate_margin = 1e-9;

/// The vectors of a program; lb and ub may be empty.
struct VectorsView {
  VectorView q, b, h, lb, ub;
};

struct PointView {
  VectorView x, y, z, z_box;
};

/// What residuals are made of.
struct ProductsView {
  VectorView Px, Ax, Gx, Aty, Gtz;
};

/// (R1), (R2), (R3); `largest_P` is the largest number of P. `terms_of_Px` is what each entry of P x is the
/// sum of, in absolute values: far out, x is known to rounding only, and so is P x. Without it nothing is
/// forgiven.
[[nodiscard]] Residuals relative_residuals(const VectorsView& data, const PointView& v,
                                           const ProductsView& products, double largest_P,
                                           const VectorView& terms_of_Px = Vector());

/// Computes residuals of a normalised program; keeps its workspace, so that a call takes no memory.
template <Matrix M>
class ResidualCheck {
 public:
  explicit ResidualCheck(const QuadraticProgram<M>& qp);
  [[nodiscard]] Residuals operator()(const QuadraticProgram<M>& qp, const Point& v);

 private:
  double largest_P_;
  Vector Px_, Ax_, Gx_, Aty_, Gtz_;
};

template <Matrix M>
[[nodiscard]] double objective(const QuadraticProgram<M>& qp, const Vector& x);

extern template class ResidualCheck<DenseMatrix>;
extern template class ResidualCheck<SparseMatrix>;
extern template double objective(const QuadraticProgram<DenseMatrix>&, const Vector&);
extern template double objective(const QuadraticProgram<SparseMatrix>&, const Vector&);

}  // namespace altdiff::detail
