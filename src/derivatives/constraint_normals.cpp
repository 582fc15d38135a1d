#include "derivatives/constraint_normals.hpp"

#include "linalg/at.hpp"

namespace altdiff::detail {

ConstraintNormals::ConstraintNormals(const QuadraticProgram<SparseMatrix>& qp, const ActiveSet& set) {
  for (Index i = 0; i < qp.m(); ++i)
    if (set.z[i] != 0) G.push_back(i);
  for (Index j = 0; j < qp.n(); ++j)
    if (set.box[j] != 0) bounds.push_back(j);
  sides = set.box(bounds);
  normals = DenseMatrix::Zero(qp.n(), std::ssize(G) + std::ssize(bounds));
  const DenseMatrix rows(qp.G);
  normals.leftCols(std::ssize(G)) = rows(G, Eigen::all).transpose();
  for (Index b = 0; b < std::ssize(bounds); ++b) normals(bounds[at(b)], std::ssize(G) + b) = sides[b];
}

double& ConstraintNormals::member(Index k, Vector& z, Vector& box) const {
  return k < std::ssize(G) ? z[G[at(k)]] : box[bounds[at(k - std::ssize(G))]];
}

}  // namespace altdiff::detail
