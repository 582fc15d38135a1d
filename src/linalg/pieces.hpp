#pragma once

#include "linalg/products.hpp"

namespace altdiff::detail {

// Large products and factorisations as calls of BLAS of at most about a tenth of a second, between which a
// call may end. How they are cut depends on sizes alone, never on threads or limits, and so do the answers.

/// Asked before every piece, with its multiplications; see may_go_on.
using GoOn = bool (*)(double work);

/// Of a product of matrices with these sizes.
[[nodiscard]] inline double multiplications(Index rows, Index columns, Index inner) {
  return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(inner);
}

/// Small work is one piece.
[[nodiscard]] bool worth_pieces(double work);

/// The lower triangle of C becomes alpha op(A) op(A)' + beta C, or only its first columns if it has no more.
/// False if `go_on` was.
[[nodiscard]] bool gram_in_pieces(char op, double alpha, const ConstBlock& A, double beta, Block C,
                                  GoOn go_on);

/// T = [L; C L^-T] from T = [P; C], where P is the leading square, of which the lower triangle is read. False
/// if `go_on` was, or P is not positive definite.
[[nodiscard]] bool partial_cholesky_in_pieces(Block T, GoOn go_on);

}  // namespace altdiff::detail
