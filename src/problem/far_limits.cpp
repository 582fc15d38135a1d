#include "problem/far_limits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/norms.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double far_away = 1e6;  // relative to the size of x

using WideVector = Eigen::Matrix<long double, Eigen::Dynamic, 1>;

/// v + alpha X x, rounded once: far from zero, the terms cancel.
Vector sum(const Vector& v, long double alpha, const SparseMatrix& X, const Vector& x) {
  WideVector wide = v.cast<long double>();
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it)
      wide[it.row()] += alpha * static_cast<long double>(it.value()) * static_cast<long double>(x[j]);
  return wide.cast<double>();
}

/// Of x, as far as the equalities tell.
double size_of_x(const QuadraticProgram<SparseMatrix>& qp) {
  const Vector norms = row_norms(qp.A);
  double size = 1;
  for (Index i = 0; i < qp.p(); ++i)
    if (norms[i] > 0) size = std::max(size, std::abs(qp.b[i]) / norms[i]);
  return size;
}

}  // namespace

NearbyProgram::NearbyProgram(const Program& user)
    : user_(user),
      norms_G_(row_norms(user.G)),
      reference_(size_of_x(user)),
      origin_(user.lb.cwiseMax(0).cwiseMin(user.ub)),
      near_(user) {
  look_around();
}

void NearbyProgram::look_around() {
  near_.q = sum(user_.q, 1, user_.P, origin_);
  near_.b = sum(user_.b, -1, user_.A, origin_);
  near_.h = h_ = sum(user_.h, -1, user_.G, origin_);
  near_.lb = lb_ = user_.lb - origin_;
  near_.ub = ub_ = user_.ub - origin_;
  left_out_ = 0;
  const double far = far_away * reference_;
  const auto leave_out = [&](double& limit, double distance, double open) {
    if (!std::isfinite(limit) || distance <= far) return;
    limit = open;
    ++left_out_;
  };
  for (Index i = 0; i < near_.m(); ++i) leave_out(near_.h[i], h_[i] / norms_G_[i], infinite);
  for (Index j = 0; j < near_.n(); ++j) {
    leave_out(near_.lb[j], -lb_[j], -infinite);
    leave_out(near_.ub[j], ub_[j], infinite);
  }
}  // (S5)

double NearbyProgram::room(const Vector& d, double longest) const {
  const Vector rows = user_.G * d;
  double shortest = longest;
  const auto meet = [&](double limit, double near_limit, double speed) {
    if (std::isfinite(limit) && std::isinf(near_limit) && speed > 0)
      shortest = std::min(shortest, limit / speed);
  };
  const double least = std::numeric_limits<double>::epsilon() * norm(d);  // below, it is rounding
  for (Index i = 0; i < near_.m(); ++i) meet(h_[i], near_.h[i], rows[i] > least * norms_G_[i] ? rows[i] : 0);
  for (Index j = 0; j < near_.n(); ++j) {
    meet(ub_[j], near_.ub[j], d[j] > least ? d[j] : 0);
    meet(-lb_[j], near_.lb[j], d[j] < -least ? -d[j] : 0);
  }
  return shortest;
}

void NearbyProgram::move_origin(const Vector& step) {
  origin_ = (origin_ + step).cwiseMax(user_.lb).cwiseMin(user_.ub);
  look_around();
}

}  // namespace altdiff::detail
