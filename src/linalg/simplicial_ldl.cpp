#include "linalg/simplicial_ldl.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "linalg/at.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr std::size_t rows_between_looks = 256;  // at the clock: less than a millisecond
constexpr double worth_a_look = 0x1p20;

using Four [[gnu::vector_size(4 * sizeof(double)), gnu::aligned(sizeof(double)), gnu::may_alias]] = double;

/// The columns that row k of L meets: the paths in the tree from the entries of column k towards k.
void append_row(int k, const PermutedTriangle& upper, const Elimination& order, std::vector<int>& mark,
                std::vector<int>& columns) {
  const auto begin = static_cast<Index>(columns.size());
  mark[at(k)] = k;
  for (int e = upper.starts[at(k)]; e < upper.starts[at(k) + 1]; ++e)
    for (int i = upper.rows[at(e)]; mark[at(i)] != k; i = order.parent[at(i)]) {
      columns.push_back(i);
      mark[at(i)] = k;
    }
  std::sort(columns.begin() + begin, columns.end());
}

}  // namespace

SimplicialPattern::SimplicialPattern(const SparseMatrix& upper_triangle, const Elimination& order)
    : upper(upper_triangle, order, PermutedTriangle::Half::Upper) {
  const std::size_t n = at(order.size());
  starts.assign(n + 1, 0);
  for (std::size_t k = 0; k < n; ++k) starts[k + 1] = starts[k] + order.count[k];
  rows.resize(at(starts.back()));
  row_columns.reserve(at(starts.back()));
  row_starts.assign(1, 0);
  std::vector<int> mark(n, -1);
  std::vector<int> next(starts.begin(), starts.end() - 1);
  for (std::size_t k = 0; k < n; ++k) {
    append_row(static_cast<int>(k), upper, order, mark, row_columns);
    for (std::size_t s = at(row_starts[k]); s < row_columns.size(); ++s)
      rows[at(next[at(row_columns[s])]++)] = static_cast<int>(k);
    row_starts.push_back(static_cast<int>(row_columns.size()));
  }
}

SimplicialLdl::SimplicialLdl(const Pattern& pattern) {
  const std::size_t n = pattern.starts.size() - 1;
  values_.resize(pattern.upper.rows.size());
  L_.resize(pattern.rows.size());
  D_inverse_.resize(n);
  filled_.resize(n);
  row_.resize(n);
}

bool SimplicialLdl::factorise(const Pattern& pattern, const Elimination& order, const double* values,
                              Index positive) {
  const PermutedTriangle& upper = pattern.upper;
  for (std::size_t e = 0; e < upper.slot.size(); ++e) values_[at(upper.slot[e])] = values[e];
  std::ranges::copy(std::span(pattern.starts).first(filled_.size()), filled_.begin());
  std::ranges::fill(row_, 0.0);
  for (std::size_t k = 0; k < row_.size(); ++k) {
    if (k % rows_between_looks == rows_between_looks - 1) require_time(worth_a_look);
    for (int e = upper.starts[k]; e < upper.starts[k + 1]; ++e) row_[at(upper.rows[at(e)])] += values_[at(e)];
    double d = row_[k];
    row_[k] = 0;
    for (int s = pattern.row_starts[k]; s < pattern.row_starts[k + 1]; ++s) {
      const std::size_t i = at(pattern.row_columns[at(s)]);
      const double t = row_[i];
      row_[i] = 0;
      const int end = filled_[i]++;
      for (int e = pattern.starts[i]; e < end; ++e) row_[at(pattern.rows[at(e)])] -= L_[at(e)] * t;
      const double l = t * D_inverse_[i];
      d -= l * t;
      L_[at(end)] = l;
    }
    const bool expected_positive = order.old_of_new[k] < positive;
    if (!std::isfinite(d) || (expected_positive ? d <= 0 : d >= 0)) return false;
    D_inverse_[k] = 1 / d;
  }
  return true;
}

void SimplicialLdl::solve(const Pattern& pattern, double* v) const { solve_each(pattern, v); }

void SimplicialLdl::solve_four(const Pattern& pattern, double* v) const {
  solve_each(pattern, reinterpret_cast<Four*>(v));
}

/// V: a number, or numbers side by side.
template <class V>
void SimplicialLdl::solve_each(const Pattern& pattern, V* v) const {
  const std::size_t n = D_inverse_.size();
  const int* starts = pattern.starts.data();
  const int* rows = pattern.rows.data();
  for (std::size_t k = 0; k < n; ++k) {
    const V t = v[k];
    for (int e = starts[k]; e < starts[k + 1]; ++e) v[rows[e]] -= L_[at(e)] * t;
  }
  for (std::size_t k = n; k-- > 0;) {
    V sum = v[k] * D_inverse_[k];
    for (int e = starts[k]; e < starts[k + 1]; ++e) sum -= L_[at(e)] * v[rows[e]];
    v[k] = sum;
  }
}

}  // namespace altdiff::detail
