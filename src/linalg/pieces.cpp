#include "linalg/pieces.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/blas.hpp"

namespace altdiff::detail {

namespace {

constexpr double largest_whole = 2e9;  // multiplications that are left in one piece
constexpr double piece = 2e9;          // multiplications: some 90 ms of one core
constexpr Index panel = 384;           // columns of a factor that are eliminated together

/// The side of a tile of a product with so many columns in common.
Index side_of_tile(Index inner) {
  const auto side = static_cast<Index>(std::sqrt(piece / static_cast<double>(std::max<Index>(inner, 1))));
  return std::max<Index>(panel, side / 8 * 8);
}

/// The rows [first, first + count) of op(A).
ConstBlock rows_of(char op, const ConstBlock& A, Index first, Index count) {
  return op == 'N' ? ConstBlock(A.middleRows(first, count)) : ConstBlock(A.middleCols(first, count));
}

char other(char op) { return op == 'N' ? 'T' : 'N'; }

/// C = alpha op(A) op(B)' + beta C, some rows at a time
bool multiply_in_pieces(char op, double alpha, const ConstBlock& A, const ConstBlock& B, double beta, Block C,
                        GoOn go_on) {
  const Index inner = op == 'N' ? A.cols() : A.rows();
  const double row = static_cast<double>(std::max<Index>(inner * C.cols(), 1));
  const Index height = std::max<Index>(panel, static_cast<Index>(piece / row) / 8 * 8);
  for (Index first = 0; first < C.rows(); first += height) {
    const Index count = std::min(height, C.rows() - first);
    if (!go_on(multiplications(count, C.cols(), inner))) return false;
    blas::gemm(op, other(op), alpha, rows_of(op, A, first, count), B, beta, C.middleRows(first, count));
  }
  return true;
}

}  // namespace

bool worth_pieces(double work) { return work > largest_whole; }

bool gram_in_pieces(char op, double alpha, const ConstBlock& A, double beta, Block C, GoOn go_on) {
  const Index inner = op == 'N' ? A.cols() : A.rows();
  const Index width = side_of_tile(inner);
  for (Index first = 0; first < C.cols(); first += width) {
    const Index count = std::min(width, C.cols() - first);
    const Index rest = C.rows() - first - count;
    const ConstBlock own = rows_of(op, A, first, count);
    if (!go_on(multiplications(count, count, inner))) return false;
    blas::gram(op, alpha, own, beta, C.block(first, first, count, count));
    if (!multiply_in_pieces(op, alpha, rows_of(op, A, first + count, rest), own, beta,
                            C.block(first + count, first, rest, count), go_on))
      return false;
  }
  return true;
}

/// Left-looking: a panel takes all that the columns before it leave of it, then is eliminated.
bool partial_cholesky_in_pieces(Block T, GoOn go_on) {
  for (Index first = 0; first < T.cols(); first += panel) {
    const Index count = std::min(panel, T.cols() - first);
    const Index rest = T.rows() - first - count;
    const auto done = T.bottomRows(T.rows() - first).leftCols(first);
    if (first > 0 && !multiply_in_pieces('N', -1, done, done.topRows(count), 1,
                                         T.block(first, first, count + rest, count), go_on))
      return false;
    const auto square = T.block(first, first, count, count);
    if (!go_on(multiplications(count + rest, count, count)) || !blas::cholesky(square)) return false;
    blas::triangular_solve_right(square, T.block(first + count, first, rest, count));
  }
  return true;
}

}  // namespace altdiff::detail
