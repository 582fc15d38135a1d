#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// True if the multipliers (y, z, z_box) prove that no x satisfies the constraints (C1). z_box is set by the test:
/// the bounds take up what is left of A'y + G'z.
template <Matrix M>
[[nodiscard]] bool proves_primal_infeasible(const QuadraticProgram<M>& qp, Point& multipliers);

/// True if x is a ray along which the objective falls without bound (C2).
template <Matrix M>
[[nodiscard]] bool proves_dual_infeasible(const QuadraticProgram<M>& qp, const Vector& x);

/// False if P has a negative direction (C3).
template <Matrix M>
[[nodiscard]] bool is_convex(const M& P);

extern template bool proves_primal_infeasible(const QuadraticProgram<DenseMatrix>&, Point&);
extern template bool proves_primal_infeasible(const QuadraticProgram<SparseMatrix>&, Point&);
extern template bool proves_dual_infeasible(const QuadraticProgram<DenseMatrix>&, const Vector&);
extern template bool proves_dual_infeasible(const QuadraticProgram<SparseMatrix>&, const Vector&);
extern template bool is_convex(const DenseMatrix&);
extern template bool is_convex(const SparseMatrix&);

}  // namespace altdiff::detail
