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

/// False if P has a negative direction (C3).
template <Matrix M>
[[nodiscard]] bool is_convex(const M& P);

extern template class CertificateCheck<DenseMatrix>;
extern template class CertificateCheck<SparseMatrix>;
extern template bool is_convex(const DenseMatrix&);
extern template bool is_convex(const SparseMatrix&);

}  // namespace altdiff::detail
