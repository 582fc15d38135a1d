#include "linalg/dense_system.hpp"

#include "linalg/blas.hpp"

namespace altdiff::detail {

DenseSystem::DenseSystem(const DenseMatrix& H, const DenseMatrix& A, const DenseMatrix& G)
    : L_(H.rows(), H.cols()),
      W_a_(A.rows(), H.cols()),
      W_g_(G.rows(), H.cols()),
      root_a_(A.rows()),
      root_g_(G.rows()),
      R_(H.rows()) {}

bool DenseSystem::factorise(const DenseMatrix& H, const DenseMatrix& A, const DenseMatrix& G,
                            const Penalties& R) {
  root_a_ = R.A.cwiseSqrt();
  root_g_ = R.G.cwiseSqrt();
  R_ = R.box;
  W_a_.noalias() = root_a_.asDiagonal() * A;
  W_g_.noalias() = root_g_.asDiagonal() * G;
  L_ = H;
  for (Index j = 0; j < R_.size(); ++j) {
    L_(j, j) += R.sigma + on_diagonal(R_[j]);
    if (std::isinf(R_[j])) take_out(j);
  }
  blas::add_gram(W_a_, L_);
  blas::add_gram(W_g_, L_);
  return blas::cholesky(L_);  // (K1)
}

void DenseSystem::take_out(Index j) {
  W_a_.col(j).setZero();
  W_g_.col(j).setZero();
  L_.row(j).setZero();
  L_.col(j).setZero();
  L_(j, j) = 1;
}

void DenseSystem::solve(Block x, Vector& /*workspace*/) const { blas::cholesky_solve(L_, x); }

void DenseSystem::solve(Block x, Block y, Block z, Block box, Vector& workspace) const {
  y.array().colwise() *= root_a_.array();
  z.array().colwise() *= root_g_.array();
  add_bounds(R_, box, x);
  blas::gemm('T', 1, W_a_, y, 1, x);
  blas::gemm('T', 1, W_g_, z, 1, x);
  solve(x, workspace);
  blas::gemm('N', 1, W_a_, x, -1, y);
  blas::gemm('N', 1, W_g_, x, -1, z);
  y.array().colwise() *= root_a_.array();
  z.array().colwise() *= root_g_.array();
  solve_bounds(R_, x, box);  // (K2)
}

}  // namespace altdiff::detail
