#pragma once

#include "linalg/elimination.hpp"

namespace altdiff::detail {

/// L D L' row by row: the fastest where L has only a few entries a column.
class SimplicialLdl {
 public:
  SimplicialLdl(const SparseMatrix& upper, const Elimination& order);

  [[nodiscard]] bool factorise(const double* values, Index positive, const Elimination& order);
  /// In the new order, in place.
  void solve(double* v) const;

 private:
  Index reach(Index k, const Elimination& order);

  PermutedTriangle upper_;
  std::vector<double> values_;
  std::vector<int> L_starts_, L_rows_, L_count_;
  std::vector<double> L_values_, D_;
  std::vector<int> mark_, stack_, path_;  // scratch of the walk through the tree
  std::vector<double> row_;               // scratch: one row of L
};

}  // namespace altdiff::detail
