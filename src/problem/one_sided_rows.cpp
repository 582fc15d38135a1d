#include "problem/one_sided_rows.hpp"

#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {
Index length(const std::vector<Index>& v) { return static_cast<Index>(v.size()); }
}  // namespace

template <Matrix M>
OneSidedRows<M>::OneSidedRows(const Constraints<M>& constraints, Index n)
    : rows_(finite_rows(constraints.h)),
      lower_(finite_rows(constraints.lb)),
      upper_(finite_rows(constraints.ub)),
      m_user_(constraints.h.size()),
      G_(constraints.h.size() > 0 ? pick_rows(constraints.G, rows_) : M(0, n)),
      h_(length(rows_) + length(lower_) + length(upper_)),
      bounds_(Vector::Zero(n)) {
  h_ << constraints.h(rows_), -constraints.lb(lower_), constraints.ub(upper_);
  for (const Index j : lower_) bounds_[j] += 1;
  for (const Index j : upper_) bounds_[j] += 1;
}

template <Matrix M>
void OneSidedRows<M>::add_product(double alpha, const ConstBlock& X, Block Y) const {
  detail::add_product(alpha, G_, X, Y.topRows(G_.rows()));
  Index row = G_.rows();
  for (const Index j : lower_) Y.row(row++) -= alpha * X.row(j);
  for (const Index j : upper_) Y.row(row++) += alpha * X.row(j);
}

template <Matrix M>
void OneSidedRows<M>::add_transposed_product(double alpha, const ConstBlock& X, Block Y) const {
  detail::add_transposed_product(alpha, G_, X.topRows(G_.rows()), Y);
  Index row = G_.rows();
  for (const Index j : lower_) Y.row(j) -= alpha * X.row(row++);
  for (const Index j : upper_) Y.row(j) += alpha * X.row(row++);
}

template <Matrix M>
DenseMatrix OneSidedRows<M>::stack(const ConstraintTangent<M>& tangent, Index k) const {
  DenseMatrix stacked = DenseMatrix::Zero(count(), k);
  if (tangent.h.size() > 0) stacked.topRows(G_.rows()) = tangent.h(rows_, Eigen::all);
  if (tangent.lb.size() > 0) stacked.middleRows(G_.rows(), length(lower_)) = -tangent.lb(lower_, Eigen::all);
  if (tangent.ub.size() > 0) stacked.bottomRows(length(upper_)) = tangent.ub(upper_, Eigen::all);
  return stacked;
}

template <Matrix M>
M OneSidedRows<M>::pick(const M& dG) const {
  return dG.size() > 0 ? pick_rows(dG, rows_) : M{};
}

template <Matrix M>
void OneSidedRows<M>::unstack(const Vector& stacked, Vector& z, Vector& z_box) const {
  z = Vector::Zero(m_user_);
  z_box = Vector::Zero(bounds_.size());
  z(rows_) = stacked.head(G_.rows());
  z_box(upper_) = stacked.tail(length(upper_));
  z_box(lower_) -= stacked.segment(G_.rows(), length(lower_));
}

template class OneSidedRows<DenseMatrix>;
template class OneSidedRows<SparseMatrix>;

}  // namespace altdiff::detail
