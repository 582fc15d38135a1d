#pragma once

#include <altdiff/matrix.hpp>
#include <vector>

namespace altdiff::detail {

/// In which order a sparse symmetric matrix is eliminated, and what that makes of its pattern. AMD keeps the
/// fill low; the columns are then sorted so that every subtree of the elimination tree stands together.
struct Elimination {
  /// `upper` holds the upper triangle, with every diagonal entry present.
  explicit Elimination(const SparseMatrix& upper);

  std::vector<int> new_of_old, old_of_new;
  std::vector<int> parent;  ///< in the elimination tree; -1 at a root
  std::vector<int> count;   ///< of each column of L, without the diagonal

  [[nodiscard]] Index size() const { return static_cast<Index>(parent.size()); }
  /// Multiplications of one factorisation, and entries of L below the diagonal.
  [[nodiscard]] double work() const;
  [[nodiscard]] double fill() const;
};

/// The permuted triangle, by columns, and where each stored value of `upper` goes in it.
struct PermutedTriangle {
  enum class Half { Upper, Lower };
  PermutedTriangle(const SparseMatrix& upper, const Elimination& order, Half half);

  std::vector<int> starts, rows, slot;
};

}  // namespace altdiff::detail
