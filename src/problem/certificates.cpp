#include "problem/certificates.hpp"

#include <cmath>

#include "linalg/augmented_system.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double relative_error = 1e-9;     // a certificate must hold to this, relative to what it claims
constexpr double rounded_to_single = 1e-6;  // a curvature below minus this is no rounding to single precision
constexpr double rounded_to_digits = 3e-5;  // and this none to five digits

/// The bound that a multiplier presses against; infinite if there is none.
template <Matrix M>
double pressed_bound(const QuadraticProgram<M>& qp, const Vector& z_box, Index j) {
  return z_box[j] > 0 ? qp.ub[j] : qp.lb[j];
}

}  // namespace

template <Matrix M>
CertificateCheck<M>::CertificateCheck(const QuadraticProgram<M>& qp)
    : norms_P_(row_norms(qp.P)),
      norms_A_(row_norms(qp.A)),
      norms_G_(row_norms(qp.G)),
      Pd_(qp.n()),
      Ad_(qp.p()),
      Gd_(qp.m()) {}

template <Matrix M>
bool CertificateCheck<M>::proves_primal_infeasible(const QuadraticProgram<M>& qp, Point& v) const {
  v.z = v.z.cwiseMax(0);
  for (Index i = 0; i < qp.m(); ++i)
    if (!std::isfinite(qp.h[i])) v.z[i] = 0;
  v.z_box.setZero();
  add_transposed_product(-1, qp.A, v.y, v.z_box);
  add_transposed_product(-1, qp.G, v.z, v.z_box);

  double claim = 0;   // what the rows add up to: 0 x <= -claim
  double weight = 0;  // of the terms of the claim
  double size = 0;    // of the terms of A'y + G'z + z_box
  const auto count = [&](double multiplier, double limit, double row) {
    if (multiplier == 0) return;
    claim -= multiplier * limit;
    weight += std::abs(multiplier) * std::max(1.0, std::abs(limit));
    size = std::max(size, std::abs(multiplier) * row);
  };
  for (Index i = 0; i < qp.p(); ++i) count(v.y[i], qp.b[i], norms_A_[i]);
  for (Index i = 0; i < qp.m(); ++i) count(v.z[i], qp.h[i], norms_G_[i]);
  double residual = 0;  // of A'y + G'z + z_box = 0 where no bound can take it up
  for (Index j = 0; j < qp.n(); ++j) {
    const double bound = pressed_bound(qp, v.z_box, j);
    if (std::isfinite(bound)) {
      count(v.z_box[j], bound, 1);
    } else {
      residual = std::max(residual, std::abs(v.z_box[j]));
      v.z_box[j] = 0;
    }
  }
  return claim > relative_error * weight && residual <= relative_error * std::min(claim, size);  // (C1)
}

template <Matrix M>
bool CertificateCheck<M>::proves_dual_infeasible(const QuadraticProgram<M>& qp, const Vector& d) {
  const double descent = -qp.q.dot(d);
  if (!(descent > 0)) return false;
  const double length = d.cwiseAbs().maxCoeff();
  const auto allowed = [&](double row) { return relative_error * std::min(descent, row * length); };
  Pd_.noalias() = qp.P * d;
  Ad_.noalias() = qp.A * d;
  Gd_.noalias() = qp.G * d;
  for (Index i = 0; i < qp.n(); ++i)
    if (std::abs(Pd_[i]) > allowed(norms_P_[i])) return false;
  for (Index i = 0; i < qp.p(); ++i)
    if (std::abs(Ad_[i]) > allowed(norms_A_[i])) return false;
  for (Index i = 0; i < qp.m(); ++i)
    if (std::isfinite(qp.h[i]) && Gd_[i] > allowed(norms_G_[i])) return false;
  for (Index j = 0; j < qp.n(); ++j) {
    if (std::isfinite(qp.ub[j]) && d[j] > allowed(1)) return false;
    if (std::isfinite(qp.lb[j]) && d[j] < -allowed(1)) return false;
  }
  return true;  // (C2)
}

template <Matrix M>
Curvature curvature_of(const M& P) {
  const Index n = P.rows();
  const Vector diagonal = P.diagonal();
  const double largest = largest_number(P);
  if (largest == 0) return Curvature::Positive;
  if ((diagonal.array() < -rounded_to_single * largest).any()) return Curvature::Negative;
  const Vector scale = diagonal.unaryExpr([&](double d) { return 1 / std::sqrt(d > 0 ? d : largest); });
  const M unit = scale.asDiagonal() * P * scale.asDiagonal();
  const M none(0, n);
  AugmentedSystem<M> system(unit, none, none);
  const auto at_least = [&](double sigma) {
    return system.factorise(unit, none, none,
                            {.sigma = sigma, .A = Vector(0), .G = Vector(0), .box = Vector::Zero(n)});
  };  // (C3)
  if (at_least(rounded_to_single)) return Curvature::Positive;
  return at_least(rounded_to_digits) ? Curvature::Doubtful : Curvature::Negative;
}

template class CertificateCheck<DenseMatrix>;
template class CertificateCheck<SparseMatrix>;
template Curvature curvature_of(const DenseMatrix&);
template Curvature curvature_of(const SparseMatrix&);

}  // namespace altdiff::detail
