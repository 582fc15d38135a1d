#include <altdiff/objective.hpp>
#include <cmath>
#include <limits>

namespace altdiff {

namespace {

void set_diagonal(DenseMatrix& H, const Vector& x) {
  H.setZero(x.size(), x.size());
  H.diagonal() = x.cwiseInverse();
}

void set_diagonal(SparseMatrix& H, const Vector& x) {
  if (H.nonZeros() != x.size()) {
    H.resize(x.size(), x.size());
    H.setIdentity();
  }
  for (Index j = 0; j < x.size(); ++j) H.valuePtr()[j] = 1 / x[j];
}

}  // namespace

/// The minimiser without constraints, kept within reach.
template <Matrix M>
Vector Entropy<M>::start() const {
  return (-q.array() - 1).min(3.0).max(-7.0).exp();
}

template <Matrix M>
double Entropy<M>::value(const Vector& x) const {
  double sum = q.dot(x);
  for (const double xi : x) sum += xi > 0 ? xi * std::log(xi) : 0;
  return sum;
}

template <Matrix M>
double Entropy<M>::largest_step(const Vector& x, const Vector& d) const {
  constexpr double fraction = 0.99;  // of the way to the boundary
  double step = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < x.size(); ++i)
    if (d[i] < 0) step = std::min(step, -fraction * x[i] / d[i]);
  return step;
}

template <Matrix M>
void Entropy<M>::gradient(const Vector& x, Vector& g) const {
  g = q.array() + x.array().log() + 1;
}

template <Matrix M>
void Entropy<M>::hessian(const Vector& x, M& H) const {
  set_diagonal(H, x);
}

template <Matrix M>
void Entropy<M>::add_cross(const Vector& /*x*/, const Tangent& dtheta, Eigen::Ref<DenseMatrix> block) const {
  if (dtheta.q.size() > 0) block += dtheta.q;
}

template struct Entropy<DenseMatrix>;
template struct Entropy<SparseMatrix>;

}  // namespace altdiff
