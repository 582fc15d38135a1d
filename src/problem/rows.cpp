#include "problem/rows.hpp"

namespace altdiff::detail {

std::vector<Index> finite_rows(const Vector& h) {
  std::vector<Index> rows;
  for (Index i = 0; i < h.size(); ++i)
    if (!never_binds(h[i])) rows.push_back(i);
  return rows;
}

DenseMatrix pick_rows(const DenseMatrix& G, const std::vector<Index>& rows) { return G(rows, Eigen::all); }

SparseMatrix pick_rows(const SparseMatrix& G, const std::vector<Index>& rows) {
  std::vector<int> place(static_cast<std::size_t>(G.rows()), -1);
  for (std::size_t k = 0; k < rows.size(); ++k)
    place[static_cast<std::size_t>(rows[k])] = static_cast<int>(k);
  std::vector<Eigen::Triplet<double>> entries;
  for (Index j = 0; j < G.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(G, j); it; ++it)
      if (const int row = place[static_cast<std::size_t>(it.row())]; row >= 0)
        entries.emplace_back(row, static_cast<int>(j), it.value());
  SparseMatrix picked(static_cast<Index>(rows.size()), G.cols());
  picked.setFromTriplets(entries.begin(), entries.end());
  return picked;
}

SparseMatrix stacked(const std::vector<SparseMatrix>& blocks) {
  std::vector<Eigen::Triplet<double>> entries;
  int first = 0;
  for (const SparseMatrix& block : blocks) {
    for (Index j = 0; j < block.outerSize(); ++j)
      for (SparseMatrix::InnerIterator it(block, j); it; ++it)
        entries.emplace_back(first + static_cast<int>(it.row()), static_cast<int>(j), it.value());
    first += static_cast<int>(block.rows());
  }
  SparseMatrix all(first, blocks[0].cols());
  all.setFromTriplets(entries.begin(), entries.end());
  return all;
}

}  // namespace altdiff::detail
