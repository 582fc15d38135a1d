#include "linalg/sparse_ldl.hpp"

#include <Eigen/OrderingMethods>
#include <algorithm>
#include <cmath>

namespace altdiff::detail {

namespace {
std::size_t at(Index i) { return static_cast<std::size_t>(i); }
}  // namespace

SparseLdl::SparseLdl(const SparseMatrix& upper) {
  const std::size_t n = at(upper.cols());
  parent_.assign(n, -1);
  L_count_.assign(n, 0);
  D_.assign(n, 0);
  mark_.assign(n, -1);
  stack_.assign(n, 0);
  path_.assign(n, 0);
  row_.assign(n, 0);
  order(upper);
  permute_pattern(upper);
  find_pattern();
}

void SparseLdl::order(const SparseMatrix& upper) {
  Eigen::PermutationMatrix<Eigen::Dynamic, Eigen::Dynamic, int> elimination;
  Eigen::AMDOrdering<int>()(upper.selfadjointView<Eigen::Upper>(), elimination);
  const std::size_t n = at(upper.cols());
  old_of_new_.resize(n);
  new_of_old_.resize(n);
  for (std::size_t k = 0; k < n; ++k) {
    old_of_new_[k] = elimination.indices()(static_cast<Index>(k));
    new_of_old_[at(old_of_new_[k])] = static_cast<int>(k);
  }
}

/// Entry (i, j) moves to the column of the larger of its two new indices; `slot_` remembers where.
void SparseLdl::permute_pattern(const SparseMatrix& upper) {
  const std::size_t n = at(upper.cols());
  const auto new_column = [&](Index i, Index j) { return std::max(new_of_old_[at(i)], new_of_old_[at(j)]); };
  starts_.assign(n + 1, 0);
  for (Index j = 0; j < upper.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(upper, j); it; ++it) ++starts_[at(new_column(it.row(), j)) + 1];
  for (std::size_t k = 0; k < n; ++k) starts_[k + 1] += starts_[k];

  rows_.resize(at(upper.nonZeros()));
  values_.assign(at(upper.nonZeros()), 0);
  slot_.clear();
  slot_.reserve(at(upper.nonZeros()));
  std::vector<int> next(starts_.begin(), starts_.end() - 1);
  for (Index j = 0; j < upper.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(upper, j); it; ++it) {
      const int column = new_column(it.row(), j);
      const int place = next[at(column)]++;
      rows_[at(place)] = std::min(new_of_old_[at(it.row())], new_of_old_[at(j)]);
      slot_.push_back(place);
    }
}

/// Elimination tree and column counts of L: row k of L is the union of the paths from the entries of column k
/// towards k.
void SparseLdl::find_pattern() {
  const Index n = size();
  for (Index k = 0; k < n; ++k) {
    mark_[at(k)] = static_cast<int>(k);
    for (int e = starts_[at(k)]; e < starts_[at(k) + 1]; ++e)
      for (int i = rows_[at(e)]; mark_[at(i)] != k; i = parent_[at(i)]) {
        if (parent_[at(i)] < 0) parent_[at(i)] = static_cast<int>(k);
        ++L_count_[at(i)];
        mark_[at(i)] = static_cast<int>(k);
      }
  }
  L_starts_.assign(at(n) + 1, 0);
  for (Index k = 0; k < n; ++k) L_starts_[at(k) + 1] = L_starts_[at(k)] + L_count_[at(k)];
  L_rows_.assign(at(L_starts_.back()), 0);
  L_values_.assign(at(L_starts_.back()), 0);
}

/// The columns that row k of L meets, in topological order, at the end of `stack_` from the returned place
/// on; column k of the matrix is scattered into `row_`.
Index SparseLdl::reach(Index k) {
  Index top = size();
  mark_[at(k)] = static_cast<int>(k);
  for (int e = starts_[at(k)]; e < starts_[at(k) + 1]; ++e) {
    int i = rows_[at(e)];
    row_[at(i)] += values_[at(e)];
    Index length = 0;
    for (; mark_[at(i)] != k; i = parent_[at(i)]) {
      path_[at(length++)] = i;
      mark_[at(i)] = static_cast<int>(k);
    }
    while (length > 0) stack_[at(--top)] = path_[at(--length)];
  }
  return top;
}

bool SparseLdl::factorise(const double* values, Index positive) {
  for (std::size_t e = 0; e < slot_.size(); ++e) values_[at(slot_[e])] = values[e];
  std::fill(mark_.begin(), mark_.end(), -1);
  std::fill(L_count_.begin(), L_count_.end(), 0);
  std::fill(row_.begin(), row_.end(), 0.0);
  for (Index k = 0; k < size(); ++k) {
    const Index top = reach(k);
    double d = row_[at(k)];
    row_[at(k)] = 0;
    for (Index s = top; s < size(); ++s) {
      const std::size_t i = at(stack_[at(s)]);
      const double t = row_[i];
      row_[i] = 0;
      const int end = L_starts_[i] + L_count_[i];
      for (int e = L_starts_[i]; e < end; ++e) row_[at(L_rows_[at(e)])] -= L_values_[at(e)] * t;
      const double l = t / D_[i];
      d -= l * t;
      L_rows_[at(end)] = static_cast<int>(k);
      L_values_[at(end)] = l;
      ++L_count_[i];
    }
    const bool expected_positive = old_of_new_[at(k)] < positive;
    if (!std::isfinite(d) || (expected_positive ? d <= 0 : d >= 0)) return false;
    D_[at(k)] = d;
  }
  return true;
}

void SparseLdl::solve(double* b, double* workspace) const {
  const std::size_t n = parent_.size();
  double* v = workspace;
  for (std::size_t k = 0; k < n; ++k) v[k] = b[old_of_new_[k]];
  for (std::size_t k = 0; k < n; ++k)
    for (int e = L_starts_[k]; e < L_starts_[k + 1]; ++e) v[L_rows_[at(e)]] -= L_values_[at(e)] * v[k];
  for (std::size_t k = 0; k < n; ++k) v[k] /= D_[k];
  for (std::size_t k = n; k-- > 0;)
    for (int e = L_starts_[k]; e < L_starts_[k + 1]; ++e) v[k] -= L_values_[at(e)] * v[L_rows_[at(e)]];
  for (std::size_t k = 0; k < n; ++k) b[old_of_new_[k]] = v[k];
}

}  // namespace altdiff::detail
