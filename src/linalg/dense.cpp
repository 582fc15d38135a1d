#include "linalg/dense.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/blas.hpp"
#include "linalg/pieces.hpp"
#include "linalg/small.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr Index call_costs_more = 24;  // rows below which a matrix-vector product is done in place
constexpr Index small_products = 128;  // rows or columns below which the product with one vector is
constexpr Index small_kernels = 300;   // columns below which our kernels beat the library's (measured)
constexpr Index worth_threads = 160;   // columns from which our kernels use several threads
constexpr Index tile = 32;
constexpr Index moment =
    32;  // columns below which a kernel takes a microsecond: whoever repeats it asks for time

/// y += alpha A x, columns in fours so that y is read and written once for four of them
void add_columns(double alpha, const ConstBlock& A, const double* x, double* y) {
  const Index rows = A.rows();
  Index j = 0;
  for (; j + 4 <= A.cols(); j += 4) {
    const double* a = A.data() + j * A.outerStride();
    const double* b = a + A.outerStride();
    const double* c = b + A.outerStride();
    const double* d = c + A.outerStride();
    const double x0 = alpha * x[j];
    const double x1 = alpha * x[j + 1];
    const double x2 = alpha * x[j + 2];
    const double x3 = alpha * x[j + 3];
    for (Index i = 0; i < rows; ++i) y[i] += x0 * a[i] + x1 * b[i] + x2 * c[i] + x3 * d[i];
  }
  for (; j < A.cols(); ++j) {
    const double* a = A.data() + j * A.outerStride();
    const double factor = alpha * x[j];
    for (Index i = 0; i < rows; ++i) y[i] += factor * a[i];
  }
}

bool gram_while(double alpha, const ConstBlock& A, double beta, Block C, int threads, GoOn go_on) {
  const Index head = C.cols();
  const Index rest = C.rows() - head;
  const bool brief = std::max(A.rows(), A.cols()) < moment;
  const double work = multiplications(C.rows(), head, A.cols());
  if (!brief && worth_pieces(work)) return gram_in_pieces('N', alpha, A, beta, C, go_on);
  if (!brief && !go_on(work)) return false;
  if (A.cols() < small_kernels) {
    small_gram(alpha, A.data(), A.outerStride(), A.rows(), A.cols(), beta, C.data(), C.outerStride(), head,
               A.cols() < worth_threads ? 1 : threads);
    return true;
  }
  blas::gram('N', alpha, A.topRows(head), beta, C.topRows(head));
  if (rest > 0) blas::gemm('N', 'T', alpha, A.bottomRows(rest), A.topRows(head), beta, C.bottomRows(rest));
  return true;
}

}  // namespace

void multiply(Op op_A, Op op_B, double alpha, const ConstBlock& A, const ConstBlock& B, double beta,
              Block C) {
  const bool vector = C.cols() == 1 && op_B == Op::None;
  if (!vector || std::max(A.rows(), A.cols()) >= small_products) {
    blas::gemm(static_cast<char>(op_A), static_cast<char>(op_B), alpha, A, B, beta, C);
    return;
  }
  if (beta == 0)
    C.setZero();  // a product would keep what is not a number
  else if (beta != 1)
    C *= beta;
  if (op_A == Op::None) {
    add_columns(alpha, A, B.data(), C.data());
  } else {
    small_dots(alpha, A.data(), A.outerStride(), A.rows(), A.cols(), B.data(), C.data());
  }
}

void triangular_solve(Op op, const ConstBlock& L, Block X) {
  if (L.rows() >= call_costs_more || X.cols() > 1) {
    blas::triangular_solve(static_cast<char>(op), L, X);
  } else if (X.cols() == 1) {
    op == Op::None ? small_forward(L.data(), L.outerStride(), L.rows(), X.data())
                   : small_backward(L.data(), L.outerStride(), L.rows(), X.data());
  }
}

void packed_forward(const double* packed, Index n, double* x) {
  for (Index j = 0; j < n; packed += n - j, ++j) {
    x[j] /= packed[0];
    for (Index i = j + 1; i < n; ++i) x[i] -= x[j] * packed[i - j];
  }
}

void packed_backward(const double* packed, Index n, double* x) {
  packed += n * (n + 1) / 2;
  for (Index j = n - 1; j >= 0; --j) {
    packed -= n - j;
    const Eigen::Map<const Vector> below(packed + 1, n - 1 - j);
    x[j] = (x[j] - below.dot(Eigen::Map<const Vector>(x + j + 1, n - 1 - j))) / packed[0];
  }
}

void gram(double alpha, const ConstBlock& A, double beta, Block C, int threads) {
  (void)gram_while(alpha, A, beta, C, threads, [](double work) {
    check_interrupt(work);
    return true;
  });
}

bool gram_in_time(double alpha, const ConstBlock& A, double beta, Block C, int threads) {
  return gram_while(alpha, A, beta, C, threads, &may_go_on);
}

bool partial_cholesky(Block T, int threads) {
  const Index n = T.cols();
  const bool brief = T.rows() < moment;
  const double work = multiplications(T.rows(), n, n);
  if (!brief && worth_pieces(work)) return partial_cholesky_in_pieces(T, &may_go_on);
  if (!brief && !may_go_on(work)) return false;
  if (n < small_kernels)
    return small_partial_cholesky(T.data(), T.outerStride(), T.rows(), n, n < worth_threads ? 1 : threads);
  if (!blas::cholesky(T.topRows(n))) return false;
  blas::triangular_solve_right(T.topRows(n), T.bottomRows(T.rows() - n));
  return true;
}

void symmetrise(Block K) {
  const Index n = K.rows();
  const Index stride = K.outerStride();
  for (Index j0 = 0; j0 < n; j0 += tile) {
    const Index end = std::min(j0 + tile, n);
    for (Index j = j0; j < end; ++j)
      for (Index i = j + 1; i < end; ++i) K(j, i) = K(i, j);
    if (end < n)
      small_transpose(K.data() + j0 * stride + end, stride, n - end, end - j0, K.data() + end * stride + j0,
                      stride);
  }
}

bool all_finite(const double* numbers, Index count) {
  // An infinity or NaN times zero is NaN, and stays so in the sum: no branch in the loop.
  return (Eigen::Map<const Eigen::ArrayXd>(numbers, count) * 0.0).sum() == 0;
}

}  // namespace altdiff::detail
