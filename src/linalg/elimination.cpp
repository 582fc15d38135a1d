#include "linalg/elimination.hpp"

#include <Eigen/OrderingMethods>
#include <algorithm>
#include <utility>

#include "linalg/at.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr double work_of_column = 1000;  // of an analysis, as multiplications: roughly

void invert(const std::vector<int>& permutation, std::vector<int>& inverse) {
  inverse.resize(permutation.size());
  for (std::size_t k = 0; k < permutation.size(); ++k) inverse[at(permutation[k])] = static_cast<int>(k);
}

/// Elimination tree, and column counts of L if wanted: row k of L is the union of the paths from the entries
/// of column k towards k.
void walk(const PermutedTriangle& upper, std::vector<int>& parent, std::vector<int>* count) {
  const std::size_t n = upper.starts.size() - 1;
  parent.assign(n, -1);
  if (count != nullptr) {
    count->assign(n, 0);
    std::vector<int> mark(n, -1);
    for (std::size_t k = 0; k < n; ++k) {
      check_interrupt(work_of_column);
      const int own = static_cast<int>(k);
      mark[k] = own;
      for (int e = upper.starts[k]; e < upper.starts[k + 1]; ++e)
        for (int i = upper.rows[at(e)]; mark[at(i)] != own; i = parent[at(i)]) {
          if (parent[at(i)] < 0) parent[at(i)] = own;
          ++(*count)[at(i)];
          mark[at(i)] = own;
        }
    }
    return;
  }
  std::vector<int> ancestor(n, -1);  // shortcuts towards the root
  for (std::size_t k = 0; k < n; ++k)
    for (int e = upper.starts[k]; e < upper.starts[k + 1]; ++e)
      for (int i = upper.rows[at(e)]; i >= 0 && std::cmp_less(i, k);) {
        const int next = ancestor[at(i)];
        ancestor[at(i)] = static_cast<int>(k);
        if (next < 0) parent[at(i)] = static_cast<int>(k);
        i = next;
      }
}

/// The columns such that all of a subtree come before its root.
std::vector<int> postorder(const std::vector<int>& parent) {
  const std::size_t n = parent.size();
  std::vector<int> first_child(n, -1);
  std::vector<int> sibling(n, -1);
  std::vector<int> order;
  std::vector<int> stack;
  order.reserve(n);
  for (std::size_t k = n; k-- > 0;)
    if (parent[k] >= 0) {
      sibling[k] = first_child[at(parent[k])];
      first_child[at(parent[k])] = static_cast<int>(k);
    }
  for (std::size_t root = 0; root < n; ++root) {
    if (parent[root] >= 0) continue;
    stack.push_back(static_cast<int>(root));
    while (!stack.empty()) {
      const int node = stack.back();
      const int child = first_child[at(node)];
      if (child < 0) {
        order.push_back(node);
        stack.pop_back();
      } else {
        first_child[at(node)] = sibling[at(child)];
        stack.push_back(child);
      }
    }
  }
  return order;
}

}  // namespace

Elimination::Elimination(const SparseMatrix& upper) {
  Eigen::PermutationMatrix<Eigen::Dynamic, Eigen::Dynamic, int> amd;
  Eigen::AMDOrdering<int>()(upper.selfadjointView<Eigen::Upper>(), amd);
  old_of_new.assign(amd.indices().data(), amd.indices().data() + upper.cols());
  invert(old_of_new, new_of_old);
  walk(PermutedTriangle(upper, *this, PermutedTriangle::Half::Upper), parent, nullptr);
  const std::vector<int> post = postorder(parent);
  std::vector<int> composed(post.size());
  for (std::size_t k = 0; k < post.size(); ++k) composed[k] = old_of_new[at(post[k])];
  old_of_new = std::move(composed);
  invert(old_of_new, new_of_old);
  walk(PermutedTriangle(upper, *this, PermutedTriangle::Half::Upper), parent, &count);
}

double Elimination::work() const {
  double sum = 0;
  for (const int c : count) sum += static_cast<double>(c) * (c + 3) / 2;
  return sum;
}

double Elimination::fill() const {
  double sum = 0;
  for (const int c : count) sum += c;
  return sum;
}

PermutedTriangle::PermutedTriangle(const SparseMatrix& upper, const Elimination& order, Half half) {
  const std::size_t n = at(upper.cols());
  const auto ends = [&](Index i, Index j) {
    const auto both = std::minmax(order.new_of_old[at(i)], order.new_of_old[at(j)]);
    return half == Half::Upper ? std::pair(both.first, both.second) : std::pair(both.second, both.first);
  };
  starts.assign(n + 1, 0);
  for (Index j = 0; j < upper.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(upper, j); it; ++it) ++starts[at(ends(it.row(), j).second) + 1];
  for (std::size_t k = 0; k < n; ++k) starts[k + 1] += starts[k];
  rows.resize(at(upper.nonZeros()));
  slot.reserve(at(upper.nonZeros()));
  std::vector<int> next(starts.begin(), starts.end() - 1);
  for (Index j = 0; j < upper.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(upper, j); it; ++it) {
      const auto [row, column] = ends(it.row(), j);
      const int place = next[at(column)]++;
      rows[at(place)] = row;
      slot.push_back(place);
    }
}

}  // namespace altdiff::detail
