#pragma once

#include <altdiff/matrix.hpp>
#include <vector>

#include "linalg/penalties.hpp"
#include "linalg/products.hpp"
#include "linalg/sparse_ldl.hpp"

namespace altdiff::detail {

/// The upper triangle of [H + diag, W'; W, -I], W = R^1/2 [A; G], and where each number of H, A and G lives
/// in it.
struct KktPattern {
  SparseMatrix upper;
  std::vector<int> of_H, of_A, of_G;  ///< place of every stored number; -1: below the diagonal, not needed
  std::vector<int> diagonal;

  KktPattern(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G);
};

/// All that the patterns of H, A and G determine: it serves every factorisation with the same ones.
struct SparseAnalysis {
  KktPattern kkt;
  LdlPattern ldl;

  SparseAnalysis(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G)
      : kkt(H, A, G), ldl(kkt.upper) {}
};

/// (K2) for sparse data, by LDL' of the quasi-definite matrix. The interface is DenseSystem's.
class SparseSystem {
 public:
  SparseSystem(const SparseMatrix& H, const SparseMatrix& A,
               const SparseMatrix& G);  ///< reads the patterns only
  [[nodiscard]] bool factorise(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G,
                               const Penalties& R);
  void solve(Block x, Block y, Block z, Block box, Vector& workspace) const;
  void solve(Block x, Vector& workspace) const;
  /// Whether x_j is held: see Penalties.
  [[nodiscard]] bool holds(Index j) const { return std::isinf(R_[j]); }

  /// For right-hand sides with so many columns.
  [[nodiscard]] Index workspace_size(Index columns = 1) const {
    return 2 * ldl_.size() * ldl_.together(columns);
  }

 private:
  void fill(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G, double sigma);
  void take_out_held();
  template <class Body>
  void for_columns(Index columns, Vector& workspace, const Body& body) const;

  std::shared_ptr<const SparseAnalysis> analysis_;
  std::vector<double> values_;  // of the KKT matrix's upper triangle
  SparseLdl ldl_;
  Vector root_a_, root_g_, R_;
};

}  // namespace altdiff::detail
