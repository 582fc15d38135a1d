#pragma once

#include <algorithm>
#include <altdiff/matrix.hpp>
#include <span>

namespace altdiff::detail {

// Factorisations of matrices that fit into the caches of one core, column after column, `stride` numbers
// apart. Tiles of twelve rows and four columns are kept in registers. The rows of a matrix are worked on in
// fours, so that up to `padding` numbers behind its last row are read and written: stride >= rows + padding.
// They do not change the result, but must be numbers: what else lies in memory, such as an address, is often
// a denormal one, with which a processor calculates a hundred times more slowly.

inline constexpr Index padding = 3;

/// What is read in a matrix is cleared by its owner, unless a function says that it does so itself.
inline void clear_padding(double* behind_last_row) { std::fill_n(behind_last_row, padding, 0.0); }

/// A stride with room for the padding, and not so round that all columns fall into the same few cache lines.
[[nodiscard]] constexpr Index padded(Index rows) {
  const Index stride = (rows + padding + 3) / 4 * 4;
  return stride % 64 == 0 ? stride + 4 : stride;
}

/// T = [L; C L^-T] from T = [P; C]: `columns` columns, of whose leading square the lower triangle is read.
/// False if P is not positive definite. The result does not depend on `threads`. Clears the padding.
[[nodiscard]] bool small_partial_cholesky(double* T, Index stride, Index rows, Index columns, int threads);

/// The lower triangle of C becomes alpha A A' + beta C; A has `rows` rows, `columns` columns, and only the
/// first `columns_C` columns of C are written. What is above the diagonal is spoilt.
void small_gram(double alpha, const double* A, Index stride_A, Index rows, Index columns, double beta,
                double* C, Index stride_C, Index columns_C, int threads);

/// y_j += alpha a_j'x, a_j the columns of A
void small_dots(double alpha, const double* A, Index stride, Index rows, Index columns, const double* x,
                double* y);

/// x = L^-1 x and x = L^-T x
void small_forward(const double* L, Index stride, Index n, double* x);
void small_backward(const double* L, Index stride, Index n, double* x);

/// target = source', `rows` and `columns` being those of the source.
void small_transpose(const double* source, Index stride, Index rows, Index columns, double* target,
                     Index target_stride);

/// target(i, j) = rows[i][j] scale[j]
void small_scaled_rows(std::span<const double* const> rows, const double* scale, Index columns,
                       double* target, Index target_stride);

struct SymmetricPart {
  double largest = 0;  ///< absolute value
  bool exact = true;   ///< the matrix is symmetric
};
/// The lower triangle of (P + P')/2.
SymmetricPart copy_symmetric_part(const double* P, Index n, double* target, Index target_stride);

}  // namespace altdiff::detail
