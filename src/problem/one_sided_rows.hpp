#pragma once

#include <altdiff/alternating_differentiation.hpp>
#include <vector>

#include "linalg/products.hpp"

namespace altdiff::detail {

/// G x <= h and the bounds as the paper has them, one slack a row: [G; -I; I] x <= [h; -lb; ub], without the
/// rows whose limit is infinite, and without ever storing the identities.
template <Matrix M>
class OneSidedRows {
 public:
  OneSidedRows(const Constraints<M>& constraints, Index n);

  [[nodiscard]] Index count() const { return h_.size(); }
  [[nodiscard]] const Vector& h() const { return h_; }
  [[nodiscard]] const M& G() const { return G_; }
  /// How many bound rows each variable has: 0, 1 or 2.
  [[nodiscard]] const Vector& bounds_per_variable() const { return bounds_; }

  void add_product(double alpha, const ConstBlock& X, Block Y) const;             ///< Y += alpha C X
  void add_transposed_product(double alpha, const ConstBlock& X, Block Y) const;  ///< Y += alpha C'X

  /// The tangents of h, lb and ub, stacked in the same way; k columns.
  [[nodiscard]] DenseMatrix stack(const ConstraintTangent<M>& tangent, Index k) const;
  /// dG without the rows that do not exist.
  [[nodiscard]] M pick(const M& dG) const;
  /// Stacked multipliers as z (over the user's rows of G) and z_box.
  void unstack(const Vector& stacked, Vector& z, Vector& z_box) const;

 private:
  std::vector<Index> rows_, lower_, upper_;  // of G, and the variables with a lower and an upper bound
  Index m_user_;
  M G_;
  Vector h_, bounds_;
};

extern template class OneSidedRows<DenseMatrix>;
extern template class OneSidedRows<SparseMatrix>;

}  // namespace altdiff::detail
