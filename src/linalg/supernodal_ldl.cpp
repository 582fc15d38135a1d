#include "linalg/supernodal_ldl.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/pieces.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr Index panel = 48;              // columns that are eliminated before the rest of a front is updated
constexpr Index wide = 128;              // columns of the rest that one product updates
constexpr double work_of_column = 1000;  // of an analysis, as multiplications: roughly
constexpr double few_zeros = 0.2;        // share of zeros that merging two supernodes may store

using Front = Eigen::Map<DenseMatrix, 0, Eigen::OuterStride<>>;
using ConstFront = Eigen::Map<const DenseMatrix, 0, Eigen::OuterStride<>>;

Index square(Index size) { return size * size; }

using Supernode = SupernodalPattern::Supernode;

void assemble(const SupernodalPattern& pattern, const Supernode& node, const double* values, double* front) {
  const PermutedTriangle& lower = pattern.lower;
  const Index size = node.size();
  for (Index j = 0; j < size; ++j) std::fill_n(front + j * size + j, size - j, 0.0);
  for (int c = 0; c < node.columns; ++c) {
    const int column = node.first + c;
    double* target = front + c * size;
    for (int e = lower.starts[at(column)]; e < lower.starts[at(column) + 1]; ++e) {
      const int row = lower.rows[at(e)];
      const int local = row - node.first;
      const auto place = local < node.columns
                             ? static_cast<Index>(local)
                             : node.columns + (std::ranges::lower_bound(node.rows, row) - node.rows.begin());
      target[place] += values[e];
    }
  }
}

void add_update(const Supernode& child, const double* update, const Supernode& node, double* front) {
  const auto size = static_cast<Index>(child.places.size());
  auto run = child.ends.begin();
  for (Index j = 0; j < size; ++j) {
    double* column = front + child.places[at(j)] * node.size();
    if (*run == j) ++run;
    Index i = j;
    for (auto end = run; end != child.ends.end(); ++end) {
      double* target = column + child.places[at(i)] - i;
      for (; i < *end; ++i) target[i] += update[j * size + i];
    }
  }
}

}  // namespace

SupernodalPattern::SupernodalPattern(const SparseMatrix& upper, const Elimination& order)
    : lower(upper, order, PermutedTriangle::Half::Lower) {
  find_supernodes(order);
  find_rows();
  find_places();
  count_numbers();
}

void SupernodalPattern::count_numbers() {
  Index stack = 0;
  for (std::size_t s = 0; s < nodes.size(); ++s) {
    Supernode& node = nodes[s];
    node.factor = entries;
    entries += node.size() * node.columns;
    largest = std::max(largest, node.size());
    for (const int child : children[s]) stack -= square(static_cast<Index>(nodes[at(child)].rows.size()));
    stack += square(static_cast<Index>(node.rows.size()));
    waiting = std::max(waiting, stack);
  }
}

/// A column joins the one before it if that is its only way up the tree and their patterns agree, or nearly.
void SupernodalPattern::find_supernodes(const Elimination& order) {
  std::vector<int> of_column(at(order.size()));
  double zeros = 0;
  double stored = 0;
  for (Index j = 0; j < order.size(); ++j) {
    const int count = order.count[at(j)];
    const bool chained = j > 0 && order.parent[at(j - 1)] == j;
    const double extra = chained ? std::max(0, count + 1 - order.count[at(j - 1)]) : 0;
    const double columns = nodes.empty() ? 0 : nodes.back().columns;
    const double more = extra * columns;  // every column so far takes the new rows in
    if (chained && zeros + more <= few_zeros * (stored + count + more)) {
      ++nodes.back().columns;
      zeros += more;
      stored += count + more;
    } else {
      nodes.push_back({.first = static_cast<int>(j), .columns = 1});
      zeros = 0;
      stored = count;
    }
    of_column[at(j)] = static_cast<int>(nodes.size()) - 1;
  }
  children.resize(nodes.size());
  for (std::size_t s = 0; s < nodes.size(); ++s) {
    const int last = nodes[s].first + nodes[s].columns - 1;
    const int up = order.parent[at(last)];
    if (up < 0) continue;
    nodes[s].parent = of_column[at(up)];
    children[at(nodes[s].parent)].push_back(static_cast<int>(s));
  }
}

void SupernodalPattern::find_rows() {
  std::vector<int> mark(lower.starts.size() - 1, -1);
  for (std::size_t s = 0; s < nodes.size(); ++s) {
    Supernode& node = nodes[s];
    check_interrupt(work_of_column * node.columns);
    const int end = node.first + node.columns;
    const auto take = [&](int row) {
      if (row < end || std::cmp_equal(mark[at(row)], s)) return;
      mark[at(row)] = static_cast<int>(s);
      node.rows.push_back(row);
    };
    for (int e = lower.starts[at(node.first)]; e < lower.starts[at(end)]; ++e) take(lower.rows[at(e)]);
    for (const int child : children[s])
      for (const int row : nodes[at(child)].rows) take(row);
    std::ranges::sort(node.rows);
  }
}

void SupernodalPattern::find_places() {
  std::vector<int> place(lower.starts.size() - 1);
  for (std::size_t s = 0; s < nodes.size(); ++s) {
    const Supernode& node = nodes[s];
    for (int c = 0; c < node.columns; ++c) place[at(node.first + c)] = c;
    for (std::size_t r = 0; r < node.rows.size(); ++r)
      place[at(node.rows[r])] = node.columns + static_cast<int>(r);
    for (const int child : children[s]) {
      Supernode& done = nodes[at(child)];
      for (const int row : done.rows) {
        const int next = place[at(row)];
        if (!done.places.empty() && done.places.back() + 1 != next)
          done.ends.push_back(static_cast<int>(done.places.size()));
        done.places.push_back(next);
      }
      done.ends.push_back(static_cast<int>(done.places.size()));
    }
  }
}

/// The node's own columns, a panel at a time; false if a pivot has the wrong sign or vanishes.
bool SupernodalLdl::eliminate(const Supernode& node, Index positive, const Elimination& order,
                              double* front) {
  const Index size = node.size();
  Front F(front, size, size, Eigen::OuterStride<>(size));
  for (Index first = 0; first < node.columns; first += panel) {
    const Index last = std::min<Index>(first + panel, node.columns);
    require_time(multiplications(size - first, last - first, panel));
    for (Index j = first; j < last; ++j) {
      auto column = F.col(j).tail(size - j);
      for (Index t = first; t < j; ++t)
        column -= (D_[at(node.first + t)] * F(j, t)) * F.col(t).tail(size - j);
      const double d = F(j, j);
      const bool expected_positive = order.old_of_new[at(node.first + j)] < positive;
      if (!std::isfinite(d) || (expected_positive ? d <= 0 : d >= 0)) return false;
      D_[at(node.first + j)] = d;
      column.tail(size - j - 1) *= 1 / d;
    }
    const Index rest = size - last;
    const Index count = last - first;
    auto scaled = scaled_.topLeftCorner(rest, count);
    for (Index c = 0; c < count; ++c)
      scaled.col(c) = D_[at(node.first + first + c)] * F.col(first + c).tail(rest);
    for (Index j = 0; j < rest; j += wide) {
      const Index columns = std::min(wide, rest - j);
      require_time(multiplications(rest - j, columns, count));
      multiply(Op::None, Op::Transpose, -1, F.block(last + j, first, rest - j, count),
               scaled.middleRows(j, columns), 1, F.block(last + j, last + j, rest - j, columns));
    }
  }
  return true;
}

SupernodalLdl::SupernodalLdl(const Pattern& pattern) {
  values_.resize(pattern.lower.rows.size());
  D_.resize(pattern.lower.starts.size() - 1);
  L_.resize(pattern.entries);
  updates_.resize(pattern.waiting);
  front_.resize(pattern.largest, pattern.largest);
  scaled_.resize(pattern.largest, panel);
}

bool SupernodalLdl::factorise(const Pattern& pattern, const Elimination& order, const double* values,
                              Index positive) {
  const PermutedTriangle& lower = pattern.lower;
  for (std::size_t e = 0; e < lower.slot.size(); ++e) values_[at(lower.slot[e])] = values[e];
  double* top = updates_.data();
  for (std::size_t s = 0; s < pattern.nodes.size(); ++s) {
    const Supernode& node = pattern.nodes[s];
    const Index size = node.size();
    assemble(pattern, node, values_.data(), front_.data());
    for (const int child : std::views::reverse(pattern.children[s])) {
      const Supernode& done = pattern.nodes[at(child)];
      top -= square(static_cast<Index>(done.rows.size()));
      add_update(done, top, node, front_.data());
    }
    if (!eliminate(node, positive, order, front_.data())) return false;
    std::copy_n(front_.data(), size * node.columns, L_.data() + node.factor);
    const auto rest = static_cast<Index>(node.rows.size());
    for (Index j = 0; j < rest; ++j)
      std::copy_n(front_.data() + (node.columns + j) * size + node.columns + j, rest - j, top + j * rest + j);
    top += square(rest);
  }
  return true;
}

void SupernodalLdl::solve(const Pattern& pattern, double* v) const {
  Vector below(pattern.largest);
  for (const Supernode& node : pattern.nodes) {
    const ConstFront L(L_.data() + node.factor, node.size(), node.columns, Eigen::OuterStride<>(node.size()));
    const Eigen::Map<Vector> own(v + node.first, node.columns);
    L.topRows(node.columns).triangularView<Eigen::UnitLower>().solveInPlace(own);
    const auto rest = static_cast<Index>(node.rows.size());
    below.head(rest).noalias() = L.bottomRows(rest) * own;
    for (Index i = 0; i < rest; ++i) v[node.rows[at(i)]] -= below[i];
  }
  for (std::size_t k = 0; k < D_.size(); ++k) v[k] /= D_[k];
  for (const Supernode& node : std::views::reverse(pattern.nodes)) {
    const ConstFront L(L_.data() + node.factor, node.size(), node.columns, Eigen::OuterStride<>(node.size()));
    Eigen::Map<Vector> own(v + node.first, node.columns);
    const auto rest = static_cast<Index>(node.rows.size());
    for (Index i = 0; i < rest; ++i) below[i] = v[node.rows[at(i)]];
    own.noalias() -= L.bottomRows(rest).transpose() * below.head(rest);
    L.topRows(node.columns).triangularView<Eigen::UnitLower>().transpose().solveInPlace(own);
  }
}

}  // namespace altdiff::detail
