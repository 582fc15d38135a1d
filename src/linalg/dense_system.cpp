#include "linalg/dense_system.hpp"

#include "linalg/blas.hpp"
#include "linalg/pieces.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

bool in_time(double work) {
  require_time(work);
  return true;
}

/// The lower triangle of C becomes C + W'W
void add_gram(const DenseMatrix& W, DenseMatrix& C) {
  const double work = multiplications(C.rows(), C.cols(), W.rows());
  if (worth_pieces(work)) {
    (void)gram_in_pieces('T', 1, W, 1, C, &in_time);
  } else {
    require_time(work);
    blas::add_gram(W, C);
  }
}

bool cholesky(DenseMatrix& K) {
  const double work = multiplications(K.rows(), K.rows(), K.rows());
  if (worth_pieces(work)) return partial_cholesky_in_pieces(K, &in_time);
  require_time(work);
  return blas::cholesky(K);
}

}  // namespace

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
  add_gram(W_a_, L_);
  add_gram(W_g_, L_);
  return cholesky(L_);  // (K1)
}

void DenseSystem::take_out(Index j) {
  W_a_.col(j).setZero();
  W_g_.col(j).setZero();
  L_.row(j).setZero();
  L_.col(j).setZero();
  L_(j, j) = 1;
}

void DenseSystem::solve(Block x, Vector& /*workspace*/) const {
  check_interrupt(multiplications(L_.rows(), L_.cols(), x.cols()));
  blas::cholesky_solve(L_, x);
}

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
