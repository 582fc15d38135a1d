#pragma once

#include <altdiff/matrix.hpp>
#include <variant>

#include "linalg/simplicial_ldl.hpp"
#include "linalg/supernodal_ldl.hpp"

namespace altdiff::detail {

/// L D L' of a symmetric quasi-definite matrix, without pivoting, in a fill-reducing order. The order and the
/// pattern of L are found once; after that `factorise` takes no memory. By rows where L stays sparse, by
/// dense blocks where it fills.
class SparseLdl {
 public:
  /// `upper` holds the upper triangle, with every diagonal entry present.
  explicit SparseLdl(const SparseMatrix& upper);

  /// Values of `upper`, in the order of its storage. `positive` of the pivots are expected to be positive,
  /// namely those of the first rows, the rest negative; false if a pivot has the wrong sign or vanishes.
  [[nodiscard]] bool factorise(const double* values, Index positive);

  /// Solves in place; `workspace` has as many entries as the matrix rows.
  void solve(double* b, double* workspace) const;

  [[nodiscard]] Index size() const { return order_.size(); }

 private:
  Elimination order_;
  std::variant<SimplicialLdl, SupernodalLdl> factor_;
};

}  // namespace altdiff::detail
