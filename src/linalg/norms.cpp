#include "linalg/norms.hpp"

#include <algorithm>
#include <cmath>

namespace altdiff::detail {

double largest_number(const DenseMatrix& X) { return norm(X); }

double largest_number(const SparseMatrix& X) { return X.nonZeros() == 0 ? 0 : norm(X.coeffs()); }

Vector row_norms(const DenseMatrix& X) {
  Vector norms = Vector::Zero(X.rows());
  if (X.size() > 0) norms = X.cwiseAbs().rowwise().maxCoeff();
  return norms;
}

Vector column_norms(const DenseMatrix& X) {
  Vector norms = Vector::Zero(X.cols());
  if (X.size() > 0) norms = X.cwiseAbs().colwise().maxCoeff().transpose();
  return norms;
}

Vector row_norms(const SparseMatrix& X) {
  Vector norms = Vector::Zero(X.rows());
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it)
      norms[it.row()] = std::max(norms[it.row()], std::abs(it.value()));
  return norms;
}

Vector column_norms(const SparseMatrix& X) {
  Vector norms = Vector::Zero(X.cols());
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it) norms[j] = std::max(norms[j], std::abs(it.value()));
  return norms;
}

Vector absolute_terms(const DenseMatrix& X, const Vector& v) { return X.cwiseAbs() * v.cwiseAbs(); }

Vector absolute_terms(const SparseMatrix& X, const Vector& v) {
  Vector terms = Vector::Zero(X.rows());
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it) terms[it.row()] += std::abs(it.value() * v[j]);
  return terms;
}

void add_absolute_transposed_terms(const DenseMatrix& X, const Vector& v, Vector& terms) {
  for (Index j = 0; j < X.cols(); ++j) terms[j] += X.col(j).cwiseProduct(v).cwiseAbs().sum();
}

void add_absolute_transposed_terms(const SparseMatrix& X, const Vector& v, Vector& terms) {
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it) terms[j] += std::abs(it.value() * v[it.row()]);
}

}  // namespace altdiff::detail
