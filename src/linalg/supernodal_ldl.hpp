#pragma once

#include "linalg/elimination.hpp"

namespace altdiff::detail {

/// L D L' by dense blocks (multifrontal): columns of L with the same pattern are one supernode, which gathers
/// what its children in the tree leave of its rows into a dense front, eliminates its own columns there, and
/// leaves the rest to its parent. Nearly all the work is in products of dense matrices.
class SupernodalLdl {
 public:
  SupernodalLdl(const SparseMatrix& upper, const Elimination& order);

  [[nodiscard]] bool factorise(const double* values, Index positive, const Elimination& order);
  /// In the new order, in place.
  void solve(double* v) const;

 private:
  struct Supernode {
    int first = 0, columns = 0;  // of L
    int parent = -1;             // supernode
    std::vector<int> rows{};     // below its columns
    std::vector<int> places{};   // of these rows in the parent's front
    Index factor = 0;            // where its columns of L begin

    [[nodiscard]] Index size() const { return columns + static_cast<Index>(rows.size()); }
  };
  void find_supernodes(const Elimination& order);
  void find_rows();
  void find_places();
  void assemble(const Supernode& node, const double* values, double* front) const;
  void add_update(const Supernode& child, const double* update, const Supernode& node, double* front) const;
  [[nodiscard]] bool eliminate(const Supernode& node, Index positive, const Elimination& order,
                               double* front);

  PermutedTriangle lower_;
  std::vector<double> values_;
  std::vector<Supernode> nodes_;
  std::vector<std::vector<int>> children_;
  std::vector<double> L_, D_;
  DenseMatrix front_, scaled_;
  std::vector<double> updates_;  // a stack: what finished supernodes leave to their parents
  Index largest_ = 0;
};

}  // namespace altdiff::detail
