#include "problem/residuals.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double doubtful_gap = 1e-11;
constexpr double certain_gap = 1e-3;  // no cancellation that leaves (R2) small explains it
/// x this much larger than what comes of it: a tolerance of 1e-8 is then that of rounding, 1e-14 of the
/// terms.
constexpr double far_out = 1e6;

/// NaN wins; so does 0 over a -0 that comes second, such as a sign that was asked for: no residual is -0.
double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

/// One, or the objective's own size if that is smaller: an objective of 1e-8 is not solved by any x.
double smallest_scale(double largest_P, const VectorView& q) {
  const double size = std::max(largest_P, norm(q));
  return size > 0 ? std::min(1.0, size) : 1.0;
}

/// How far v exceeds its limits; NaN if it is.
template <class Violation>
double excess(const Eigen::MatrixBase<Violation>& violation) {
  return norm(violation.derived().template cwiseMax<Eigen::PropagateNaN>(0.0));
}

/// lambda_i times the limit that it belongs to; a row without a limit has no multiplier.
template <class Number>
Number limit_product(Number multiplier, double limit) {
  return std::isfinite(limit) ? multiplier * limit : Number{0};
}

template <class Number>
Number dot(const VectorView& a, const VectorView& b) {
  if constexpr (std::is_same_v<Number, double>) {
    return a.dot(b);
  } else {
    return a.template cast<Number>().dot(b.template cast<Number>());
  }
}

/// Of limits that belong to values of unlike sizes; each is relative to its own where the largest of all is
/// far above.
double far_primal_residual(const VectorsView& data, const PointView& v, const ProductsView& products,
                           double size) {
  double worst = 0;
  const auto count = [&](double violation, double own) {
    worst = larger(worst, violation / std::min(size, std::max({far_out, std::abs(own), size / far_out})));
  };
  for (Index i = 0; i < data.b.size(); ++i)
    count(std::abs(products.Ax[i] - data.b[i]), larger(std::abs(products.Ax[i]), std::abs(data.b[i])));
  for (Index i = 0; i < data.h.size(); ++i) count(products.Gx[i] - data.h[i], products.Gx[i]);
  for (Index j = 0; j < data.lb.size(); ++j) count(data.lb[j] - v.x[j], v.x[j]);
  for (Index j = 0; j < data.ub.size(); ++j) count(v.x[j] - data.ub[j], v.x[j]);
  return worst;
}

double primal_residual(const VectorsView& data, const PointView& v, const ProductsView& products) {
  const double size = std::max({1.0, norm(products.Ax), norm(data.b), norm(products.Gx), norm(v.x)});
  if (!std::isfinite(size)) return std::numeric_limits<double>::infinity();  // relative to it, nothing counts
  if (size > far_out) return far_primal_residual(data, v, products, size);
  double violation = norm(products.Ax - data.b);
  violation = larger(violation, excess(products.Gx - data.h));
  if (data.lb.size() > 0) violation = larger(violation, excess(data.lb - v.x));
  if (data.ub.size() > 0) violation = larger(violation, excess(v.x - data.ub));
  return violation / size;  // (R1)
}

double dual_residual(const VectorsView& data, const PointView& v, const ProductsView& products, double floor,
                     const VectorView& terms_of_Px) {
  double signs = 0;
  for (Index i = 0; i < v.z.size(); ++i)
    signs = larger(signs, std::isfinite(data.h[i]) ? -v.z[i] : std::abs(v.z[i]));
  const bool some_ub = data.ub.size() > 0;
  const bool some_lb = data.lb.size() > 0;
  for (Index j = 0; j < v.x.size(); ++j) {
    if (!some_ub || !std::isfinite(data.ub[j])) signs = larger(signs, v.z_box[j]);
    if (!some_lb || !std::isfinite(data.lb[j])) signs = larger(signs, -v.z_box[j]);
  }
  const double scale = std::max(
      {floor, norm(products.Px), norm(data.q), norm(products.Aty), norm(products.Gtz), norm(v.z_box)});
  const double gradient = norm(products.Px + data.q + products.Aty + products.Gtz + v.z_box);
  if (terms_of_Px.size() == 0) return larger(gradient, signs) / scale;
  const Vector relative = (products.Px + data.q + products.Aty + products.Gtz + v.z_box)
                              .cwiseQuotient((terms_of_Px / far_out).cwiseMax(scale));
  return larger(norm(relative), signs / scale);  // (R2)
}

template <class Number>
double relative_gap(const VectorsView& data, const PointView& v, const ProductsView& products, double floor,
                    const VectorView& terms_of_Px) {
  const auto quadratic = dot<Number>(v.x, products.Px);
  const auto linear = dot<Number>(data.q, v.x);
  const auto equalities = dot<Number>(data.b, v.y);
  Number inequalities = 0;
  for (Index i = 0; i < v.z.size(); ++i) inequalities += limit_product<Number>(v.z[i], data.h[i]);
  Number bounds = 0;
  for (Index j = 0; j < v.x.size(); ++j) {
    const VectorView& limit = v.z_box[j] > 0 ? data.ub : data.lb;
    if (limit.size() > 0) bounds += limit_product<Number>(v.z_box[j], limit[j]);
  }
  const Number terms = terms_of_Px.size() > 0 ? v.x.cwiseAbs().dot(terms_of_Px) / far_out : 0;
  const Number scale = std::max({static_cast<Number>(floor), terms, std::abs(quadratic), std::abs(linear),
                                 std::abs(equalities), std::abs(inequalities), std::abs(bounds)});
  return static_cast<double>(std::abs(quadratic + linear + equalities + inequalities + bounds) /
                             scale);  // (R3)
}

}  // namespace

double Residuals::worst() const { return larger(larger(primal, dual), gap); }

bool Residuals::below(double tolerance) const {
  return primal <= tolerance && dual <= tolerance && gap <= tolerance;
}

Residuals relative_residuals(const VectorsView& data, const PointView& v, const ProductsView& products,
                             double largest_P, const VectorView& terms_of_Px) {
  const double floor = smallest_scale(largest_P, data.q);
  double gap = relative_gap<double>(data, v, products, floor, terms_of_Px);
  // Large multipliers that cancel leave rounding errors in the sums; where they could matter, they are summed
  // in extended precision.
  if (gap > doubtful_gap && !(gap > certain_gap))
    gap = relative_gap<long double>(data, v, products, floor, terms_of_Px);
  return {.primal = primal_residual(data, v, products),
          .dual = dual_residual(data, v, products, floor, terms_of_Px),
          .gap = gap};
}

template <Matrix M>
ResidualCheck<M>::ResidualCheck(const QuadraticProgram<M>& qp)
    : largest_P_(largest_number(qp.P)), Px_(qp.n()), Ax_(qp.p()), Gx_(qp.m()), Aty_(qp.n()), Gtz_(qp.n()) {}

template <Matrix M>
Residuals ResidualCheck<M>::operator()(const QuadraticProgram<M>& qp, const Point& v) {
  Px_.noalias() = qp.P * v.x;
  Ax_.noalias() = qp.A * v.x;
  Gx_.noalias() = qp.G * v.x;
  Aty_.noalias() = qp.A.transpose() * v.y;
  Gtz_.noalias() = qp.G.transpose() * v.z;
  const VectorsView data{.q = qp.q, .b = qp.b, .h = qp.h, .lb = qp.lb, .ub = qp.ub};
  const PointView point{.x = v.x, .y = v.y, .z = v.z, .z_box = v.z_box};
  const ProductsView products{.Px = Px_, .Ax = Ax_, .Gx = Gx_, .Aty = Aty_, .Gtz = Gtz_};
  if (largest_P_ * norm(v.x) > far_out * std::max(norm(Px_), norm(qp.q)))
    return relative_residuals(data, point, products, largest_P_, absolute_terms(qp.P, v.x));
  return relative_residuals(data, point, products, largest_P_);
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
