#pragma once

#include <altdiff/matrix.hpp>
#include <vector>

namespace altdiff::detail {

/// L D L' of a symmetric quasi-definite matrix, without pivoting, in a fill-reducing (AMD) order.
/// The order and the pattern of L are found once; after that neither `factorise` nor `solve` takes memory.
class SparseLdl {
 public:
  /// `upper` holds the upper triangle, with every diagonal entry present.
  explicit SparseLdl(const SparseMatrix& upper);

  /// Values of `upper`, in the order of its storage. `positive` of the pivots are expected to be positive,
  /// namely those of the first rows, the rest negative; false if a pivot has the wrong sign or vanishes.
  [[nodiscard]] bool factorise(const double* values, Index positive);

  /// Solves in place; `workspace` has as many entries as the matrix rows.
  void solve(double* b, double* workspace) const;

  [[nodiscard]] Index size() const { return static_cast<Index>(parent_.size()); }

 private:
  void order(const SparseMatrix& upper);
  void permute_pattern(const SparseMatrix& upper);
  void find_pattern();
  Index reach(Index k);

  std::vector<int> new_of_old_;     // where the AMD order puts a row
  std::vector<int> old_of_new_;     //
  std::vector<int> slot_;           // where a value of `upper` goes in the permuted matrix
  std::vector<int> starts_, rows_;  // permuted upper triangle, by columns
  std::vector<double> values_;      //
  std::vector<int> parent_;         // elimination tree
  std::vector<int> L_starts_, L_rows_, L_count_;
  std::vector<double> L_values_, D_;
  std::vector<int> mark_, stack_, path_;  // scratch of the symbolic walk
  std::vector<double> row_;               // scratch: one row of L
};

}  // namespace altdiff::detail
