#pragma once

#include <altdiff/solution.hpp>

namespace altdiff {

/// Gradient of the loss with respect to every field of the program, given the loss's gradient with respect to
/// the solution (any member of `bar` may be empty: zero). Matrices keep their pattern, P_bar is symmetric.
template <Matrix M>
[[nodiscard]] QuadraticProgram<M> vjp(const QuadraticProgram<M>& qp, const Solution<M>& solution,
                                      const Point& bar);

template <Matrix M>
[[nodiscard]] QuadraticProgram<M> vjp(const QuadraticProgram<M>& qp, const Solution<M>& solution,
                                      const Vector& x_bar) {
  return vjp(qp, solution, Point{.x = x_bar});
}

/// Change of the solution under a change of the program (any field of `dot` may be empty: zero).
template <Matrix M>
[[nodiscard]] Point jvp(const QuadraticProgram<M>& qp, const Solution<M>& solution,
                        const QuadraticProgram<M>& dot);

/// The part of v along which x can move without cost, where x is the least of many (L2); else zero.
template <Matrix M>
[[nodiscard]] Vector flat_part(const Solution<M>& solution, const Vector& v);

/// How many alternating rounds (A3) a derivative takes, with the factor that the forward pass made; 0 where
/// it is solved in constraint space, without rounds.
template <Matrix M>
[[nodiscard]] int derivative_rounds(const Solution<M>& solution);

/// dx/d(field), one column per entry; field is one of q, h, b, lb, ub.
template <Matrix M>
[[nodiscard]] DenseMatrix jacobian(const QuadraticProgram<M>& qp, const Solution<M>& solution, Field field);

extern template QuadraticProgram<DenseMatrix> vjp(const QuadraticProgram<DenseMatrix>&,
                                                  const Solution<DenseMatrix>&, const Point&);
extern template QuadraticProgram<SparseMatrix> vjp(const QuadraticProgram<SparseMatrix>&,
                                                   const Solution<SparseMatrix>&, const Point&);
extern template Vector flat_part(const Solution<DenseMatrix>&, const Vector&);
extern template Vector flat_part(const Solution<SparseMatrix>&, const Vector&);
extern template int derivative_rounds(const Solution<DenseMatrix>&);
extern template int derivative_rounds(const Solution<SparseMatrix>&);
extern template Point jvp(const QuadraticProgram<DenseMatrix>&, const Solution<DenseMatrix>&,
                          const QuadraticProgram<DenseMatrix>&);
extern template Point jvp(const QuadraticProgram<SparseMatrix>&, const Solution<SparseMatrix>&,
                          const QuadraticProgram<SparseMatrix>&);
extern template DenseMatrix jacobian(const QuadraticProgram<DenseMatrix>&, const Solution<DenseMatrix>&,
                                     Field);
extern template DenseMatrix jacobian(const QuadraticProgram<SparseMatrix>&, const Solution<SparseMatrix>&,
                                     Field);

}  // namespace altdiff
