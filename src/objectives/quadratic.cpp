#include <altdiff/objective.hpp>
#include <limits>

#include "linalg/products.hpp"

namespace altdiff {

template <Matrix M>
double Quadratic<M>::value(const Vector& x) const {
  double quadratic = 0;
  for (Index j = 0; j < x.size(); ++j) quadratic += x[j] * P.col(j).dot(x);
  return 0.5 * quadratic + q.dot(x);
}

template <Matrix M>
double Quadratic<M>::largest_step(const Vector& /*x*/, const Vector& /*d*/) const {
  return std::numeric_limits<double>::infinity();
}

template <Matrix M>
void Quadratic<M>::gradient(const Vector& x, Vector& g) const {
  g = q;
  detail::add_product(1, P, x, g);
}

template <Matrix M>
void Quadratic<M>::hessian(const Vector& /*x*/, M& H) const {
  H = P;
}

template <Matrix M>
void Quadratic<M>::add_cross(const Vector& x, const Tangent& dtheta, Eigen::Ref<DenseMatrix> block) const {
  if (dtheta.P.size() > 0) {  // only the symmetric part counts
    detail::add_product(0.5, dtheta.P, x, block);
    detail::add_transposed_product(0.5, dtheta.P, x, block);
  }
  if (dtheta.q.size() > 0) block += dtheta.q;
}

template struct Quadratic<DenseMatrix>;
template struct Quadratic<SparseMatrix>;

}  // namespace altdiff
