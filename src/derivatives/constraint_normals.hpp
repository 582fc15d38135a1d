#pragma once

#include <vector>

#include "derivatives/active_set.hpp"

namespace altdiff::detail {

/// The rows of a set, those of G and then the bounds, with their outward normals, one column each.
struct ConstraintNormals {
  std::vector<Index> G, bounds;
  Vector sides;  ///< of the bounds
  DenseMatrix normals;

  ConstraintNormals(const QuadraticProgram<SparseMatrix>& qp, const ActiveSet& set);

  [[nodiscard]] Index count() const { return normals.cols(); }
  /// What a set has for column k, and what that is when the row is in it.
  [[nodiscard]] double& member(Index k, Vector& z, Vector& box) const;
  [[nodiscard]] double value(Index k) const { return k < std::ssize(G) ? 1 : sides[k - std::ssize(G)]; }
};

}  // namespace altdiff::detail
