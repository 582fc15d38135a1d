#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff::detail {

using Block = Eigen::Ref<DenseMatrix, 0, Eigen::OuterStride<>>;
using ConstBlock = Eigen::Ref<const DenseMatrix, 0, Eigen::OuterStride<>>;

// Products with one column or many, without taking memory: BLAS for dense matrices.

void add_product(double alpha, const DenseMatrix& A, const ConstBlock& X, Block Y);   ///< Y += alpha A X
void add_product(double alpha, const SparseMatrix& A, const ConstBlock& X, Block Y);  ///< Y += alpha A X
void add_transposed_product(double alpha, const DenseMatrix& A, const ConstBlock& X,
                            Block Y);  ///< Y += alpha A'X
void add_transposed_product(double alpha, const SparseMatrix& A, const ConstBlock& X,
                            Block Y);  ///< Y += alpha A'X

}  // namespace altdiff::detail
