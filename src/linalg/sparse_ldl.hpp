#pragma once

#include <memory>
#include <variant>

#include "linalg/elimination.hpp"
#include "linalg/simplicial_ldl.hpp"
#include "linalg/supernodal_ldl.hpp"

namespace altdiff::detail {

/// What the pattern of a matrix alone tells about its factor: the order, and how L will be stored. By rows
/// where L stays sparse, by dense blocks where it fills.
struct LdlPattern {
  /// `upper` holds the upper triangle, with every diagonal entry present.
  explicit LdlPattern(const SparseMatrix& upper);

  Elimination order;
  std::variant<SimplicialPattern, SupernodalPattern> factor;
};

/// L D L' of a symmetric quasi-definite matrix, without pivoting, in a fill-reducing order. Takes its memory
/// in the constructor, and none after that.
class SparseLdl {
 public:
  explicit SparseLdl(std::shared_ptr<const LdlPattern> pattern);

  /// Values of `upper`, in the order of its storage. `positive` of the pivots are expected to be positive,
  /// namely those of the first rows, the rest negative; false if a pivot has the wrong sign or vanishes.
  /// Throws OutOfTime if it would be done too late; the factor is lost then.
  [[nodiscard]] bool factorise(const double* values, Index positive);

  static constexpr int side_by_side = 4;  ///< right-hand sides that one visit of L may serve
  /// How many of so many right-hand sides are solved for at once.
  [[nodiscard]] Index together(Index columns) const {
    return columns >= side_by_side && std::holds_alternative<SimplicialLdl>(factor_) ? side_by_side : 1;
  }
  /// Solves in place for `count` of them, row after row; `workspace` has as many entries as they.
  void solve(double* b, Index count, double* workspace) const;

  [[nodiscard]] Index size() const { return pattern_->order.size(); }
  /// Entries of L.
  [[nodiscard]] double fill() const { return fill_; }

 private:
  std::shared_ptr<const LdlPattern> pattern_;
  std::variant<SimplicialLdl, SupernodalLdl> factor_;
  double fill_;
};

}  // namespace altdiff::detail
