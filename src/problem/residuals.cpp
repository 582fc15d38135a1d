#include "problem/residuals.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// One, or the objective's own size if that is smaller: an objective of 1e-8 is not solved by any x.
template <Matrix M>
double smallest_scale(const QuadraticProgram<M>& qp) {
  const double size = std::max(largest_number(qp.P), norm(qp.q));
  return size > 0 ? std::min(1.0, size) : 1.0;
}

/// lambda_i times the limit that it belongs to; a row without a limit has no multiplier.
double limit_product(double multiplier, double limit) {
  return std::isfinite(limit) ? multiplier * limit : 0;
}

}  // namespace

double Residuals::worst() const { return larger(larger(primal, dual), gap); }

bool Residuals::below(double tolerance) const {
  return primal <= tolerance && dual <= tolerance && gap <= tolerance;
}

template <Matrix M>
ResidualCheck<M>::ResidualCheck(const QuadraticProgram<M>& qp)
    : floor_(smallest_scale(qp)), Px_(qp.n()), Ax_(qp.p()), Gx_(qp.m()), Aty_(qp.n()), Gtz_(qp.n()) {}

template <Matrix M>
double ResidualCheck<M>::primal(const QuadraticProgram<M>& qp, const Point& v) {
  Ax_.noalias() = qp.A * v.x;
  Gx_.noalias() = qp.G * v.x;
  double violation = norm(Ax_ - qp.b);
  violation = larger(violation, norm((Gx_ - qp.h).template cwiseMax<Eigen::PropagateNaN>(0.0)));
  violation = larger(violation, norm((qp.lb - v.x).template cwiseMax<Eigen::PropagateNaN>(0.0)));
  violation = larger(violation, norm((v.x - qp.ub).template cwiseMax<Eigen::PropagateNaN>(0.0)));
  return violation / std::max({1.0, norm(Ax_), norm(qp.b), norm(Gx_), norm(v.x)});  // (R1)
}

template <Matrix M>
double ResidualCheck<M>::dual(const QuadraticProgram<M>& qp, const Point& v) {
  Px_.noalias() = qp.P * v.x;
  Aty_.noalias() = qp.A.transpose() * v.y;
  Gtz_.noalias() = qp.G.transpose() * v.z;
  double violation = norm(Px_ + qp.q + Aty_ + Gtz_ + v.z_box);
  for (Index i = 0; i < v.z.size(); ++i)
    violation = larger(violation, std::isfinite(qp.h[i]) ? -v.z[i] : std::abs(v.z[i]));
  for (Index j = 0; j < v.x.size(); ++j) {
    if (!std::isfinite(qp.ub[j])) violation = larger(violation, v.z_box[j]);
    if (!std::isfinite(qp.lb[j])) violation = larger(violation, -v.z_box[j]);
  }
  return violation /
         std::max({floor_, norm(Px_), norm(qp.q), norm(Aty_), norm(Gtz_), norm(v.z_box)});  // (R2)
}

template <Matrix M>
double ResidualCheck<M>::gap(const QuadraticProgram<M>& qp, const Point& v) const {
  const double quadratic = v.x.dot(Px_);
  const double linear = qp.q.dot(v.x);
  const double equalities = qp.b.dot(v.y);
  double inequalities = 0;
  for (Index i = 0; i < v.z.size(); ++i) inequalities += limit_product(v.z[i], qp.h[i]);
  double bounds = 0;
  for (Index j = 0; j < v.x.size(); ++j)
    bounds += limit_product(v.z_box[j], v.z_box[j] > 0 ? qp.ub[j] : qp.lb[j]);
  const double scale = std::max({floor_, std::abs(quadratic), std::abs(linear), std::abs(equalities),
                                 std::abs(inequalities), std::abs(bounds)});
  return std::abs(quadratic + linear + equalities + inequalities + bounds) / scale;  // (R3)
}

template <Matrix M>
Residuals ResidualCheck<M>::operator()(const QuadraticProgram<M>& qp, const Point& v) {
  Residuals residuals;
  residuals.primal = primal(qp, v);
  residuals.dual = dual(qp, v);
  residuals.gap = gap(qp, v);
  return residuals;
}

template <Matrix M>
double objective(const QuadraticProgram<M>& qp, const Vector& x) {
  const Vector Px = qp.P * x;
  return 0.5 * x.dot(Px) + qp.q.dot(x);
}

template class ResidualCheck<DenseMatrix>;
template class ResidualCheck<SparseMatrix>;
template double objective(const QuadraticProgram<DenseMatrix>&, const Vector&);
template double objective(const QuadraticProgram<SparseMatrix>&, const Vector&);

}  // namespace altdiff::detail
