#pragma once

#include "linalg/products.hpp"

namespace altdiff::detail {

// What the dense engine needs of linear algebra: plain loops where a problem is so small that the call of a
// library takes longer than its work, BLAS above.

enum class Op : char { None = 'N', Transpose = 'T' };

/// C = alpha op(A) op(B) + beta C
void multiply(Op op_A, Op op_B, double alpha, const ConstBlock& A, const ConstBlock& B, double beta, Block C);

/// X = op(L)^-1 X, with the lower triangle of L
void triangular_solve(Op op, const ConstBlock& L, Block X);

/// L^-1 x and L^-T x in place; `packed` holds the lower triangle of L, column after column.
void packed_forward(const double* packed, Index n, double* x);
void packed_backward(const double* packed, Index n, double* x);

/// The lower triangle of C becomes alpha A A' + beta C; only its first columns if C has no more. The columns
/// of both are padded (linalg/small.hpp), and what is above the diagonal is spoilt.
void gram(double alpha, const ConstBlock& A, double beta, Block C, int threads);

/// The same, unless the time is over before it is done: then false.
[[nodiscard]] bool gram_in_time(double alpha, const ConstBlock& A, double beta, Block C, int threads);

/// T = [L; C L^-T] from T = [P; C], where P is the leading square, of which the lower triangle is read. The
/// columns are padded. False if P is not positive definite, or the time is over.
[[nodiscard]] bool partial_cholesky(Block T, int threads);

/// Copies the lower triangle to the upper one.
void symmetrise(Block K);

[[nodiscard]] bool all_finite(const double* numbers, Index count);

}  // namespace altdiff::detail
