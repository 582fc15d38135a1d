#pragma once

#include "linalg/elimination.hpp"

namespace altdiff::detail {

/// The pattern of L, by columns and by rows.
struct SimplicialPattern {
  SimplicialPattern(const SparseMatrix& upper, const Elimination& order);

  PermutedTriangle upper;
  std::vector<int> starts, rows;             ///< of the columns of L, without the diagonal
  std::vector<int> row_starts, row_columns;  ///< of its rows; ascending, which is a topological order
};

/// L D L' row by row: the fastest where L has only a few entries a column.
class SimplicialLdl {
 public:
  using Pattern = SimplicialPattern;

  explicit SimplicialLdl(const Pattern& pattern);  ///< takes all the memory that it will need

  [[nodiscard]] bool factorise(const Pattern& pattern, const Elimination& order, const double* values,
                               Index positive);
  /// In the new order, in place.
  void solve(const Pattern& pattern, double* v) const;
  /// The same for four right-hand sides: v_k has four numbers, which come from one visit of L.
  void solve_four(const Pattern& pattern, double* v) const;

 private:
  template <class V>
  void solve_each(const Pattern& pattern, V* v) const;

  std::vector<double> values_;         // of the permuted triangle
  std::vector<double> L_, D_inverse_;  // of L as in the pattern
  std::vector<int> filled_;            // entries that each column of L has so far
  std::vector<double> row_;            // one row of L
};

}  // namespace altdiff::detail
