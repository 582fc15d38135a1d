#include "linalg/products.hpp"

#include "linalg/blas.hpp"

namespace altdiff::detail {

void add_product(double alpha, const DenseMatrix& A, const ConstBlock& X, Block Y) {
  blas::gemm('N', alpha, A, X, 1, Y);
}

void add_transposed_product(double alpha, const DenseMatrix& A, const ConstBlock& X, Block Y) {
  blas::gemm('T', alpha, A, X, 1, Y);
}

void add_product(double alpha, const SparseMatrix& A, const ConstBlock& X, Block Y) {
  for (Index c = 0; c < X.cols(); ++c)
    for (Index j = 0; j < A.outerSize(); ++j) {
      const double factor = alpha * X(j, c);
      for (SparseMatrix::InnerIterator it(A, j); it; ++it) Y(it.row(), c) += factor * it.value();
    }
}

void add_transposed_product(double alpha, const SparseMatrix& A, const ConstBlock& X, Block Y) {
  for (Index c = 0; c < X.cols(); ++c)
    for (Index j = 0; j < A.outerSize(); ++j) {
      double sum = 0;
      for (SparseMatrix::InnerIterator it(A, j); it; ++it) sum += it.value() * X(it.row(), c);
      Y(j, c) += alpha * sum;
    }
}

}  // namespace altdiff::detail
