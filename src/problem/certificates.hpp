#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// Tests proofs that a normalised program has no solution; keeps its workspace, so that a call takes no
/// memory.
template <Matrix M>
class CertificateCheck {
 public:
  explicit CertificateCheck(const QuadraticProgram<M>& qp);

  /// True if the multipliers of v prove that no x satisfies the constraints (C1). z_box is set by
  /// the test: the bounds take up what is left of A'y + G'z.
  [[nodiscard]] bool proves_primal_infeasible(const QuadraticProgram<M>& qp, Point& v) const;

  /// True if d is a ray along which the objective falls without bound (C2).
  [[nodiscard]] bool proves_dual_infeasible(const QuadraticProgram<M>& qp, const Vector& d);

 private:
  Vector norms_P_, norms_A_, norms_G_;  // largest number of each row
  Vector Pd_, Ad_, Gd_;
};

enum class Curvature {
  Positive,
  Doubtful,  ///< negative somewhere, but by no more than P's having been written down to five digits explains
  Negative,
};

/// Whether P has a negative direction (C3).
template <Matrix M>
[[nodiscard]] Curvature curvature_of(const M& P);

extern template class CertificateCheck<DenseMatrix>;
extern template class CertificateCheck<SparseMatrix>;
extern template Curvature curvature_of(const DenseMatrix&);
extern template Curvature curvature_of(const SparseMatrix&);

}  // namespace altdiff::detail
