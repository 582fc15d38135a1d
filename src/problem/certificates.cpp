#include "problem/certificates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/augmented_system.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double relative_error = 1e-9;  // a certificate must hold to this, relative to what it claims
constexpr double largest_claim_in_doubt = 1e-8;  // that rows contradict each other, relative to their limits
constexpr double real_descent = 1e-7;            // of a ray, a hundred times what its errors may be
constexpr double rounding = 8 * std::numeric_limits<double>::epsilon();  // of a sum, relative to its terms
constexpr double rounded_to_single = 1e-6;  // a curvature below minus this is no rounding to single precision
constexpr double rounded_to_digits = 3e-5;  // and this none to five digits
constexpr double clearly_curved = 1e-3;     // of a diagonal of ones
const double nearly_denormal = std::ldexp(1.0, -830);  // products with numbers below may lose digits
constexpr double no_part = 1e-30;                      // of the largest multiplier: such a row is not needed
constexpr double underflows =
    1e-150;  // of a ray, relative to its largest number: products may be zero that are not
constexpr int away_from_denormal = 200;  // as a power of two

/// The bound that a multiplier presses against; infinite if there is none.
template <Matrix M>
double pressed_bound(const QuadraticProgram<M>& qp, const Vector& z_box, Index j) {
  return z_box[j] > 0 ? qp.ub[j] : qp.lb[j];
}

/// The power of two that brings a number to [1/2, 1).
double unit_factor(double largest) {
  int exponent = 0;
  (void)std::frexp(largest, &exponent);
  return std::ldexp(1.0, -std::clamp(exponent, -1000, 1000));
}

}  // namespace

template <Matrix M>
CertificateCheck<M>::CertificateCheck(const QuadraticProgram<M>& qp, double tolerance)
    : least_claim_(std::clamp(tolerance, relative_error, largest_claim_in_doubt)),
      norms_P_(row_norms(qp.P)),
      norms_A_(row_norms(qp.A)),
      norms_G_(row_norms(qp.G)),
      Pd_(qp.n()),
      Ad_(qp.p()),
      Gd_(qp.m()),
      negligible_(qp.n()) {}

/// The length of a proof is nobody's business, but products with it must not lose digits.
template <Matrix M>
bool CertificateCheck<M>::normalise(const QuadraticProgram<M>& qp, Point& v) const {
  v.z = v.z.cwiseMax(0);
  for (Index i = 0; i < qp.m(); ++i)
    if (!std::isfinite(qp.h[i])) v.z[i] = 0;
  const double largest = std::max(norm(v.y), norm(v.z));
  if (!(largest > 0) || !std::isfinite(largest)) return false;
  const auto drop = [&](double lambda, double limit) {
    return std::abs(lambda) < no_part * largest && std::abs(limit) < 1 / no_part ? 0.0 : lambda;
  };
  for (Index i = 0; i < qp.p(); ++i) v.y[i] = drop(v.y[i], qp.b[i]);
  for (Index i = 0; i < qp.m(); ++i) v.z[i] = drop(v.z[i], qp.h[i]);
  double factor = unit_factor(largest);
  const double pull = factor * std::max(norm(v.y.cwiseProduct(norms_A_)), norm(v.z.cwiseProduct(norms_G_)));
  if (pull < nearly_denormal) factor = std::ldexp(factor, away_from_denormal);
  v.y *= factor;
  v.z *= factor;
  return true;
}

template <Matrix M>
Contradiction CertificateCheck<M>::contradiction(const QuadraticProgram<M>& qp, Point& v) {
  if (!normalise(qp, v)) return Contradiction::None;
  negligible_.setZero();
  const Claim as_it_is = claim_of(qp, v);
  if (as_it_is.kind(least_claim_) == Contradiction::BeyondTolerance) return Contradiction::BeyondTolerance;
  // What rounding leaves of a sum is no part of it; a far bound would make much of it.
  if (!(as_it_is.residual <= relative_error * as_it_is.size)) return Contradiction::None;
  if (!(as_it_is.claim + as_it_is.in_doubt > 0)) return Contradiction::None;
  add_absolute_transposed_terms(qp.A, v.y, negligible_);
  add_absolute_transposed_terms(qp.G, v.z, negligible_);
  negligible_ *= rounding;
  return claim_of(qp, v).kind(least_claim_);
}

template <Matrix M>
Contradiction CertificateCheck<M>::Claim::kind(double least) const {
  const bool proves = claim > relative_error * terms && residual <= relative_error * std::min(claim, size);
  if (!proves) return Contradiction::None;
  return claim > least * weight * limit ? Contradiction::BeyondTolerance : Contradiction::WithinTolerance;
}  // (C1)

template <Matrix M>
bool CertificateCheck<M>::proves_primal_infeasible(const QuadraticProgram<M>& qp, Point& v) {
  return contradiction(qp, v) == Contradiction::BeyondTolerance;
}

template <Matrix M>
auto CertificateCheck<M>::claim_of(const QuadraticProgram<M>& qp, Point& v) const -> Claim {
  v.z_box.setZero();
  add_transposed_product(-1, qp.A, v.y, v.z_box);
  add_transposed_product(-1, qp.G, v.z, v.z_box);
  Claim found;
  const auto count = [&](double multiplier, double limit, double row) {
    if (multiplier == 0) return;
    found.claim -= multiplier * limit;
    found.terms += std::abs(multiplier * limit);
    found.weight += std::abs(multiplier);
    found.limit = std::max(found.limit, std::abs(limit));
    found.size = std::max(found.size, std::abs(multiplier) * row);
    found.pull += std::abs(multiplier) * row;
  };
  for (Index i = 0; i < qp.p(); ++i) count(v.y[i], qp.b[i], norms_A_[i]);
  for (Index i = 0; i < qp.m(); ++i) count(v.z[i], qp.h[i], norms_G_[i]);
  const double largest_rounding = rounding * found.pull;
  for (Index j = 0; j < qp.n(); ++j) {
    const double bound = pressed_bound(qp, v.z_box, j);
    const bool is_rounding = std::abs(v.z_box[j]) <= negligible_[j];
    if (std::isfinite(bound) && !is_rounding) {
      if (std::abs(v.z_box[j]) <= largest_rounding) found.in_doubt += std::abs(v.z_box[j] * bound);
      count(v.z_box[j], bound, 1);
    } else {
      if (!is_rounding) found.residual = std::max(found.residual, std::abs(v.z_box[j]));
      v.z_box[j] = 0;
    }
  }
  return found;
}

/// How much the objective falls along d, relative to its terms and to the largest that they could be.
template <Matrix M>
auto CertificateCheck<M>::descent_along(const QuadraticProgram<M>& qp, const Vector& d) -> Descent {
  long double descent = 0;
  long double terms = 0;
  for (Index j = 0; j < qp.n(); ++j) {
    const long double term = static_cast<long double>(qp.q[j]) * d[j];
    descent -= term;
    terms += std::abs(term);
  }
  const long double largest = static_cast<long double>(norm(qp.q)) * norm(d);
  return {.at_all = descent > real_descent * terms, .clear = descent > real_descent * largest};
}

/// No row moves by more than the errors of d, relative to the sizes of rows and its length.
template <Matrix M>
bool CertificateCheck<M>::level(const QuadraticProgram<M>& qp, const Vector& sizes_P, const Vector& sizes_A,
                                const Vector& sizes_G, double length) const {
  const double allowed = relative_error * length;
  if (!(Pd_.array().abs() <= allowed * sizes_P.array()).all()) return false;
  if (!(Ad_.array().abs() <= allowed * sizes_A.array()).all()) return false;
  for (Index i = 0; i < qp.m(); ++i)
    if (std::isfinite(qp.h[i]) && !(Gd_[i] <= allowed * sizes_G[i])) return false;
  return true;
}

template <Matrix M>
bool CertificateCheck<M>::stays_within_bounds(const QuadraticProgram<M>& qp, const Vector& d,
                                              double allowed) {
  for (Index j = 0; j < qp.n(); ++j) {
    if (std::isfinite(qp.ub[j]) && d[j] > allowed) return false;
    if (std::isfinite(qp.lb[j]) && d[j] < -allowed) return false;
  }
  return true;
}

template <Matrix M>
bool CertificateCheck<M>::proves_dual_infeasible(const QuadraticProgram<M>& qp, Vector& d, double flat) {
  const double largest = norm(d);
  if (!(largest > 0) || !std::isfinite(largest)) return false;
  d = (d.array().abs() < underflows * largest).select(0.0, d);
  const Descent descent = descent_along(qp, d);
  if (!descent.at_all) return false;
  d *= std::ldexp(unit_factor(largest), away_from_denormal);
  const bool proved = flat_along(qp, d, flat) && (descent.clear || exactly_level(qp, d));
  d *= std::ldexp(1.0, -away_from_denormal);
  return proved;  // (C2)
}

/// Most directions fail by P or the bounds: A and G are asked last.
template <Matrix M>
bool CertificateCheck<M>::flat_along(const QuadraticProgram<M>& qp, const Vector& d, double flat) {
  const double length = norm(d);
  Pd_.noalias() = qp.P * d;
  if (!(Pd_.array().abs() <= flat * length * norms_P_.array()).all()) return false;
  if (!stays_within_bounds(qp, d, relative_error * length)) return false;
  Ad_.noalias() = qp.A * d;
  Gd_.noalias() = qp.G * d;
  return level(qp, norms_P_, norms_A_, norms_G_, length);
}

template <Matrix M>
bool CertificateCheck<M>::exactly_level(const QuadraticProgram<M>& qp, const Vector& d) const {
  return stays_within_bounds(qp, d, 0) &&
         level(qp, absolute_terms(qp.P, d), absolute_terms(qp.A, d), absolute_terms(qp.G, d), 1);
}

/// P with a diagonal of ones; a zero of the diagonal is scaled by the largest number.
template <Matrix M>
M with_unit_diagonal(const M& P) {
  const double largest = largest_number(P);
  const Vector scale = P.diagonal().unaryExpr([&](double d) { return 1 / std::sqrt(d > 0 ? d : largest); });
  return scale.asDiagonal() * P * scale.asDiagonal();
}

template <Matrix M>
bool definite(const M& P, double sigma, AugmentedSystem<M>& system) {
  const M none(0, P.rows());
  return system.factorise(P, none, none,
                          {.sigma = sigma, .A = Vector(0), .G = Vector(0), .box = Vector::Zero(P.rows())});
}

template <Matrix M>
Curvature curvature_of(const M& P) {
  const double largest = largest_number(P);
  if (largest == 0) return Curvature::Positive;
  if ((P.diagonal().array() < -rounded_to_single * largest).any()) return Curvature::Negative;
  const M unit = with_unit_diagonal(P);
  if (!std::isfinite(largest_number(unit))) return Curvature::Negative;  // 1 beside a diagonal of 1e-315
  const M none(0, P.rows());
  AugmentedSystem<M> system(unit, none, none);
  if (definite(unit, rounded_to_single, system)) return Curvature::Positive;
  return definite(unit, rounded_to_digits, system) ? Curvature::Doubtful : Curvature::Negative;
}  // (C3)

bool definite_where_curved(const SparseMatrix& P) {
  const SparseMatrix unit = with_unit_diagonal(P);
  if (!std::isfinite(largest_number(unit))) return false;
  const SparseMatrix none(0, P.rows());
  AugmentedSystem<SparseMatrix> system(unit, none, none);
  const Vector held = row_norms(P).unaryExpr(
      [](double size) { return size > 0 ? 0.0 : std::numeric_limits<double>::infinity(); });
  return system.factorise(unit, none, none,
                          {.sigma = -clearly_curved, .A = Vector(0), .G = Vector(0), .box = held});
}

template <Matrix M>
bool curves_downwards(const M& P) {
  if (largest_number(P) == 0) return false;
  const M unit = with_unit_diagonal(P);
  if (!std::isfinite(largest_number(unit))) return true;
  const M none(0, P.rows());
  AugmentedSystem<M> system(unit, none, none);
  return !definite(unit, 8 * rounding * static_cast<double>(P.rows()), system);
}

Vector make_convex(SparseMatrix& P) {
  const SparseMatrix given = P;
  const Vector diagonal = Vector(P.diagonal()).cwiseAbs();
  Vector R;
  for (const double share : {1e-2 * rounded_to_single, 1e-1 * rounded_to_single, rounded_to_single}) {
    R = share * diagonal;
    P = given;
    for (Index j = 0; j < R.size(); ++j) P.coeffRef(j, j) += R[j];
    if (!curves_downwards(P)) break;
  }
  return R;
}

template bool curves_downwards(const DenseMatrix&);
template bool curves_downwards(const SparseMatrix&);
template class CertificateCheck<DenseMatrix>;
template class CertificateCheck<SparseMatrix>;
template Curvature curvature_of(const DenseMatrix&);
template Curvature curvature_of(const SparseMatrix&);

}  // namespace altdiff::detail
