#include "problem/certificates.hpp"

#include <cmath>

#include "linalg/augmented_system.hpp"

namespace altdiff::detail {

namespace {

constexpr double relative_error = 1e-9;  // a certificate must hold to this, relative to what it claims

/// The bound that a multiplier presses against; infinite if there is none.
template <Matrix M>
double pressed_bound(const QuadraticProgram<M>& qp, const Vector& z_box, Index j) {
  return z_box[j] > 0 ? qp.ub[j] : qp.lb[j];
}

}  // namespace

template <Matrix M>
bool CertificateCheck<M>::proves_primal_infeasible(const QuadraticProgram<M>& qp, Point& v) const {
  v.z = v.z.cwiseMax(0);
  for (Index i = 0; i < qp.m(); ++i)
    if (!std::isfinite(qp.h[i])) v.z[i] = 0;
  v.z_box.setZero();
  add_transposed_product(-1, qp.A, v.y, v.z_box);
  add_transposed_product(-1, qp.G, v.z, v.z_box);

  double claim = -qp.b.dot(v.y);
  double weight = 0;
  for (Index i = 0; i < qp.p(); ++i) weight += std::abs(v.y[i]) * std::max(1.0, std::abs(qp.b[i]));
  for (Index i = 0; i < qp.m(); ++i) {
    if (v.z[i] <= 0) continue;
    claim -= v.z[i] * qp.h[i];
    weight += v.z[i] * std::max(1.0, std::abs(qp.h[i]));
  }
  double residual = 0;  // of A'y + G'z + z_box = 0 where no bound can take it up
  for (Index j = 0; j < qp.n(); ++j) {
    const double bound = pressed_bound(qp, v.z_box, j);
    if (!std::isfinite(bound)) {
      residual = std::max(residual, std::abs(v.z_box[j]));
      v.z_box[j] = 0;
      continue;
    }
    claim -= v.z_box[j] * bound;
    weight += std::abs(v.z_box[j]) * std::max(1.0, std::abs(bound));
  }
  return claim > relative_error * weight && residual <= relative_error * claim;  // (C1)
}

template <Matrix M>
bool CertificateCheck<M>::proves_dual_infeasible(const QuadraticProgram<M>& qp, const Vector& d) {
  const double descent = -qp.q.dot(d);
  if (!(descent > 0)) return false;
  const double allowed = relative_error * descent;
  Pd_.noalias() = qp.P * d;
  Ad_.noalias() = qp.A * d;
  Gd_.noalias() = qp.G * d;
  if ((Pd_.array().abs() > allowed).any() || (Ad_.array().abs() > allowed).any()) return false;
  for (Index i = 0; i < qp.m(); ++i)
    if (std::isfinite(qp.h[i]) && Gd_[i] > allowed) return false;
  for (Index j = 0; j < qp.n(); ++j) {
    if (std::isfinite(qp.ub[j]) && d[j] > allowed) return false;
    if (std::isfinite(qp.lb[j]) && d[j] < -allowed) return false;
  }
  return true;  // (C2)
}

template <Matrix M>
bool is_convex(const M& P) {
  const Index n = P.rows();
  const Vector diagonal = P.diagonal();
  if ((diagonal.array() < 0).any()) return false;
  const Vector scale = diagonal.unaryExpr([](double d) { return d > 0 ? 1 / std::sqrt(d) : 1.0; });
  const M unit = scale.asDiagonal() * P * scale.asDiagonal();
  const M none(0, n);
  AugmentedSystem<M> system(unit, none, none);
  const Penalties only_sigma{.sigma = relative_error, .A = Vector(0), .G = Vector(0), .box = Vector::Zero(n)};
  return system.factorise(unit, none, none, only_sigma);  // (C3)
}

template class CertificateCheck<DenseMatrix>;
template class CertificateCheck<SparseMatrix>;
template bool is_convex(const DenseMatrix&);
template bool is_convex(const SparseMatrix&);

}  // namespace altdiff::detail
