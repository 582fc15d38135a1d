#include "linalg/simplicial_ldl.hpp"

#include <algorithm>
#include <cmath>

namespace altdiff::detail {

namespace {
std::size_t at(Index i) { return static_cast<std::size_t>(i); }
}  // namespace

SimplicialLdl::SimplicialLdl(const SparseMatrix& upper, const Elimination& order)
    : upper_(upper, order, PermutedTriangle::Half::Upper), values_(upper_.rows.size()) {
  const std::size_t n = at(order.size());
  L_starts_.assign(n + 1, 0);
  for (std::size_t k = 0; k < n; ++k) L_starts_[k + 1] = L_starts_[k] + order.count[k];
  L_rows_.assign(at(L_starts_.back()), 0);
  L_values_.assign(at(L_starts_.back()), 0);
  L_count_.assign(n, 0);
  D_.assign(n, 0);
  mark_.assign(n, -1);
  stack_.assign(n, 0);
  path_.assign(n, 0);
  row_.assign(n, 0);
}

/// The columns that row k of L meets, in topological order, at the end of `stack_` from the returned place
/// on; column k of the matrix is scattered into `row_`.
Index SimplicialLdl::reach(Index k, const Elimination& order) {
  Index top = order.size();
  mark_[at(k)] = static_cast<int>(k);
  for (int e = upper_.starts[at(k)]; e < upper_.starts[at(k) + 1]; ++e) {
    int i = upper_.rows[at(e)];
    row_[at(i)] += values_[at(e)];
    Index length = 0;
    for (; mark_[at(i)] != k; i = order.parent[at(i)]) {
      path_[at(length++)] = i;
      mark_[at(i)] = static_cast<int>(k);
    }
    while (length > 0) stack_[at(--top)] = path_[at(--length)];
  }
  return top;
}

bool SimplicialLdl::factorise(const double* values, Index positive, const Elimination& order) {
  for (std::size_t e = 0; e < upper_.slot.size(); ++e) values_[at(upper_.slot[e])] = values[e];
  std::ranges::fill(mark_, -1);
  std::ranges::fill(L_count_, 0);
  std::ranges::fill(row_, 0.0);
  for (Index k = 0; k < order.size(); ++k) {
    const Index top = reach(k, order);
    double d = row_[at(k)];
    row_[at(k)] = 0;
    for (Index s = top; s < order.size(); ++s) {
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
    const bool expected_positive = order.old_of_new[at(k)] < positive;
    if (!std::isfinite(d) || (expected_positive ? d <= 0 : d >= 0)) return false;
    D_[at(k)] = d;
  }
  return true;
}

void SimplicialLdl::solve(double* v) const {
  const std::size_t n = D_.size();
  for (std::size_t k = 0; k < n; ++k)
    for (int e = L_starts_[k]; e < L_starts_[k + 1]; ++e) v[L_rows_[at(e)]] -= L_values_[at(e)] * v[k];
  for (std::size_t k = 0; k < n; ++k) v[k] /= D_[k];
  for (std::size_t k = n; k-- > 0;)
    for (int e = L_starts_[k]; e < L_starts_[k + 1]; ++e) v[k] -= L_values_[at(e)] * v[L_rows_[at(e)]];
}

}  // namespace altdiff::detail
