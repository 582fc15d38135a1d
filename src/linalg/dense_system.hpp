#pragma once

#include <altdiff/matrix.hpp>

#include "linalg/penalties.hpp"
#include "linalg/products.hpp"

namespace altdiff::detail {

/// (K2) for dense data, by Cholesky of (K1). With W = R^1/2 [A; G], K = H + sigma I + diag(R_box) + W'W, and
/// no step divides by a penalty.
class DenseSystem {
 public:
  DenseSystem(const DenseMatrix& H, const DenseMatrix& A, const DenseMatrix& G);  ///< reads the sizes only

  /// False: K is not positive definite (or so close to it that the factorisation failed). Throws OutOfTime if
  /// it would be done too late; the factor is lost then.
  [[nodiscard]] bool factorise(const DenseMatrix& H, const DenseMatrix& A, const DenseMatrix& G,
                               const Penalties& R);

  /// Solves (K2), one column a right-hand side: right-hand sides in, solution out. Rows without penalty
  /// return zero.
  void solve(Block x, Block y, Block z, Block box, Vector& workspace) const;

  /// Solves (K1) K u = x in place.
  void solve(Block x, Vector& workspace) const;

  /// Whether x_j is held: see Penalties.
  [[nodiscard]] bool holds(Index j) const { return std::isinf(R_[j]); }

  /// What `solve` needs of its workspace; each thread brings its own.
  [[nodiscard]] Index workspace_size(Index /*columns*/ = 1) const { return 0; }

 private:
  void take_out(Index j);

  DenseMatrix L_;               // Cholesky factor of K, lower triangle
  DenseMatrix W_a_, W_g_;       // R_a^1/2 A, R_g^1/2 G
  Vector root_a_, root_g_, R_;  // R_a^1/2, R_g^1/2, R_box
};

}  // namespace altdiff::detail
