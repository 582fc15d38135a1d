#pragma once

#include "linalg/elimination.hpp"

namespace altdiff::detail {

/// Columns of L with the same pattern, or nearly, are one supernode.
struct SupernodalPattern {
  struct Supernode {
    int first = 0, columns = 0;  ///< of L
    int parent = -1;             ///< supernode
    std::vector<int> rows{};     ///< below its columns
    std::vector<int> places{};   ///< of these rows in the parent's front
    std::vector<int> ends{};     ///< of the runs of rows that are neighbours there, too
    Index factor = 0;            ///< where its columns of L begin

    [[nodiscard]] Index size() const { return columns + static_cast<Index>(rows.size()); }
  };

  SupernodalPattern(const SparseMatrix& upper, const Elimination& order);

  PermutedTriangle lower;
  std::vector<Supernode> nodes;
  std::vector<std::vector<int>> children;
  Index entries = 0;  ///< of L
  Index waiting = 0;  ///< most numbers that finished supernodes leave to their parents at a time
  Index largest = 0;  ///< rows of a front

 private:
  void find_supernodes(const Elimination& order);
  void find_rows();
  void find_places();
  void count_numbers();
};

/// L D L' by dense blocks (multifrontal): a supernode gathers what its children in the tree leave of its rows
/// into a dense front, eliminates its own columns there, and leaves the rest to its parent. Nearly all the
/// work is in products of dense matrices.
class SupernodalLdl {
 public:
  using Pattern = SupernodalPattern;

  explicit SupernodalLdl(const Pattern& pattern);  ///< takes all the memory that it will need

  [[nodiscard]] bool factorise(const Pattern& pattern, const Elimination& order, const double* values,
                               Index positive);
  /// In the new order, in place.
  void solve(const Pattern& pattern, double* v) const;

 private:
  using Supernode = SupernodalPattern::Supernode;
  [[nodiscard]] bool eliminate(const Supernode& node, Index positive, const Elimination& order,
                               double* front);

  std::vector<double> values_;  // of the permuted triangle
  std::vector<double> D_;
  Vector L_;  // not std::vector, which would write zeros to gigabytes before there is anything to interrupt
  DenseMatrix front_, scaled_;
  Vector updates_;  // a stack: what finished supernodes leave to their parents
};

}  // namespace altdiff::detail
