#include "linalg/supernodal_ldl.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "linalg/dense.hpp"

namespace altdiff::detail {

namespace {

constexpr Index panel = 48;        // columns that are eliminated before the rest of a front is updated
constexpr Index wide = 128;        // columns of the rest that one product updates
constexpr double few_zeros = 0.2;  // share of zeros that merging two supernodes may store

using Front = Eigen::Map<DenseMatrix, 0, Eigen::OuterStride<>>;
using ConstFront = Eigen::Map<const DenseMatrix, 0, Eigen::OuterStride<>>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

Index entries(Index size) { return size * size; }

}  // namespace

SupernodalLdl::SupernodalLdl(const SparseMatrix& upper, const Elimination& order)
    : lower_(upper, order, PermutedTriangle::Half::Lower), values_(lower_.rows.size()), D_(at(order.size())) {
  find_supernodes(order);
  find_rows();
  find_places();
  Index numbers = 0;
  Index stack = 0;
  Index deepest = 0;
  for (std::size_t s = 0; s < nodes_.size(); ++s) {
    Supernode& node = nodes_[s];
    node.factor = numbers;
    numbers += node.size() * node.columns;
    largest_ = std::max(largest_, node.size());
    for (const int child : children_[s]) stack -= entries(static_cast<Index>(nodes_[at(child)].rows.size()));
    stack += entries(static_cast<Index>(node.rows.size()));
    deepest = std::max(deepest, stack);
  }
  L_.resize(at(numbers));
  updates_.resize(at(deepest));
  front_.resize(largest_, largest_);
  scaled_.resize(largest_, panel);
}

/// A column joins the one before it if that is its only way up the tree and their patterns agree, or nearly.
void SupernodalLdl::find_supernodes(const Elimination& order) {
  std::vector<int> of_column(at(order.size()));
  double zeros = 0;
  double stored = 0;
  for (Index j = 0; j < order.size(); ++j) {
    const int count = order.count[at(j)];
    const bool chained = j > 0 && order.parent[at(j - 1)] == j;
    const double extra = chained ? std::max(0, count + 1 - order.count[at(j - 1)]) : 0;
    const double columns = nodes_.empty() ? 0 : nodes_.back().columns;
    const double more = extra * columns;  // every column so far takes the new rows in
    if (chained && zeros + more <= few_zeros * (stored + count + more)) {
      ++nodes_.back().columns;
      zeros += more;
      stored += count + more;
    } else {
      nodes_.push_back({.first = static_cast<int>(j), .columns = 1});
      zeros = 0;
      stored = count;
    }
    of_column[at(j)] = static_cast<int>(nodes_.size()) - 1;
  }
  children_.resize(nodes_.size());
  for (std::size_t s = 0; s < nodes_.size(); ++s) {
    const int last = nodes_[s].first + nodes_[s].columns - 1;
    const int up = order.parent[at(last)];
    if (up < 0) continue;
    nodes_[s].parent = of_column[at(up)];
    children_[at(nodes_[s].parent)].push_back(static_cast<int>(s));
  }
}

void SupernodalLdl::find_rows() {
  std::vector<int> mark(lower_.starts.size() - 1, -1);
  for (std::size_t s = 0; s < nodes_.size(); ++s) {
    Supernode& node = nodes_[s];
    const int end = node.first + node.columns;
    const auto take = [&](int row) {
      if (row < end || std::cmp_equal(mark[at(row)], s)) return;
      mark[at(row)] = static_cast<int>(s);
      node.rows.push_back(row);
    };
    for (int e = lower_.starts[at(node.first)]; e < lower_.starts[at(end)]; ++e) take(lower_.rows[at(e)]);
    for (const int child : children_[s])
      for (const int row : nodes_[at(child)].rows) take(row);
    std::ranges::sort(node.rows);
  }
}

void SupernodalLdl::find_places() {
  std::vector<int> place(lower_.starts.size() - 1);
  for (std::size_t s = 0; s < nodes_.size(); ++s) {
    const Supernode& node = nodes_[s];
    for (int c = 0; c < node.columns; ++c) place[at(node.first + c)] = c;
    for (std::size_t r = 0; r < node.rows.size(); ++r)
      place[at(node.rows[r])] = node.columns + static_cast<int>(r);
    for (const int child : children_[s])
      for (const int row : nodes_[at(child)].rows) nodes_[at(child)].places.push_back(place[at(row)]);
  }
}

void SupernodalLdl::assemble(const Supernode& node, const double* values, double* front) const {
  const Index size = node.size();
  for (Index j = 0; j < size; ++j) std::fill_n(front + j * size + j, size - j, 0.0);
  for (int c = 0; c < node.columns; ++c) {
    const int column = node.first + c;
    double* target = front + c * size;
    for (int e = lower_.starts[at(column)]; e < lower_.starts[at(column) + 1]; ++e) {
      const int row = lower_.rows[at(e)];
      const int local = row - node.first;
      const auto place = local < node.columns
                             ? static_cast<Index>(local)
                             : node.columns + (std::ranges::lower_bound(node.rows, row) - node.rows.begin());
      target[place] += values[e];
    }
  }
}

void SupernodalLdl::add_update(const Supernode& child, const double* update, const Supernode& node,
                               double* front) const {
  const auto size = static_cast<Index>(child.places.size());
  for (Index j = 0; j < size; ++j) {
    double* column = front + child.places[at(j)] * node.size();
    for (Index i = j; i < size; ++i) column[child.places[at(i)]] += update[j * size + i];
  }
}

/// The node's own columns, a panel at a time; false if a pivot has the wrong sign or vanishes.
bool SupernodalLdl::eliminate(const Supernode& node, Index positive, const Elimination& order,
                              double* front) {
  const Index size = node.size();
  Front F(front, size, size, Eigen::OuterStride<>(size));
  for (Index first = 0; first < node.columns; first += panel) {
    const Index last = std::min<Index>(first + panel, node.columns);
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
      multiply(Op::None, Op::Transpose, -1, F.block(last + j, first, rest - j, count),
               scaled.middleRows(j, columns), 1, F.block(last + j, last + j, rest - j, columns));
    }
  }
  return true;
}

bool SupernodalLdl::factorise(const double* values, Index positive, const Elimination& order) {
  for (std::size_t e = 0; e < lower_.slot.size(); ++e) values_[at(lower_.slot[e])] = values[e];
  double* top = updates_.data();
  for (std::size_t s = 0; s < nodes_.size(); ++s) {
    const Supernode& node = nodes_[s];
    const Index size = node.size();
    assemble(node, values_.data(), front_.data());
    for (const int child : std::views::reverse(children_[s])) {
      const Supernode& done = nodes_[at(child)];
      top -= entries(static_cast<Index>(done.rows.size()));
      add_update(done, top, node, front_.data());
    }
    if (!eliminate(node, positive, order, front_.data())) return false;
    std::copy_n(front_.data(), size * node.columns, L_.data() + node.factor);
    const auto rest = static_cast<Index>(node.rows.size());
    for (Index j = 0; j < rest; ++j)
      std::copy_n(front_.data() + (node.columns + j) * size + node.columns + j, rest - j, top + j * rest + j);
    top += entries(rest);
  }
  return true;
}

void SupernodalLdl::solve(double* v) const {
  Vector below(largest_);
  for (const Supernode& node : nodes_) {
    const ConstFront L(L_.data() + node.factor, node.size(), node.columns, Eigen::OuterStride<>(node.size()));
    const Eigen::Map<Vector> own(v + node.first, node.columns);
    L.topRows(node.columns).triangularView<Eigen::UnitLower>().solveInPlace(own);
    const auto rest = static_cast<Index>(node.rows.size());
    below.head(rest).noalias() = L.bottomRows(rest) * own;
    for (Index i = 0; i < rest; ++i) v[node.rows[at(i)]] -= below[i];
  }
  for (std::size_t k = 0; k < D_.size(); ++k) v[k] /= D_[k];
  for (const Supernode& node : std::views::reverse(nodes_)) {
    const ConstFront L(L_.data() + node.factor, node.size(), node.columns, Eigen::OuterStride<>(node.size()));
    Eigen::Map<Vector> own(v + node.first, node.columns);
    const auto rest = static_cast<Index>(node.rows.size());
    for (Index i = 0; i < rest; ++i) below[i] = v[node.rows[at(i)]];
    own.noalias() -= L.bottomRows(rest).transpose() * below.head(rest);
    L.topRows(node.columns).triangularView<Eigen::UnitLower>().transpose().solveInPlace(own);
  }
}

}  // namespace altdiff::detail
