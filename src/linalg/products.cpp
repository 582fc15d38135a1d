#include "linalg/products.hpp"

#include "linalg/blas.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

void add_product(double alpha, const DenseMatrix& A, const ConstBlock& X, Block Y) {
  blas::gemm('N', alpha, A, X, 1, Y);
}

void add_transposed_product(double alpha, const DenseMatrix& A, const ConstBlock& X, Block Y) {
  blas::gemm('T', alpha, A, X, 1, Y);
}

// Plain loops over the compressed arrays: columns have a few entries, and an iterator costs as much as those.

void add_product(double alpha, const SparseMatrix& A, const ConstBlock& X, Block Y) {
  const int* starts = A.outerIndexPtr();
  const int* rows = A.innerIndexPtr();
  const double* values = A.valuePtr();
  const auto work = static_cast<double>(A.nonZeros());
  for (Index c = 0; c < X.cols(); ++c) {
    check_interrupt(work);
    const double* x = X.col(c).data();
    double* y = Y.col(c).data();
    for (Index j = 0; j < A.outerSize(); ++j) {
      const double factor = alpha * x[j];
      for (int e = starts[j]; e < starts[j + 1]; ++e) y[rows[e]] += factor * values[e];
    }
  }
}

void add_transposed_product(double alpha, const SparseMatrix& A, const ConstBlock& X, Block Y) {
  const int* starts = A.outerIndexPtr();
  const int* rows = A.innerIndexPtr();
  const double* values = A.valuePtr();
  const auto work = static_cast<double>(A.nonZeros());
  for (Index c = 0; c < X.cols(); ++c) {
    check_interrupt(work);
    const double* x = X.col(c).data();
    double* y = Y.col(c).data();
    for (Index j = 0; j < A.outerSize(); ++j) {
      double sum = 0;
      for (int e = starts[j]; e < starts[j + 1]; ++e) sum += values[e] * x[rows[e]];
      y[j] += alpha * sum;
    }
  }
}

}  // namespace altdiff::detail
