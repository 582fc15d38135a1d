#include "derivatives/linearisation.hpp"

#include <cmath>

namespace altdiff::detail {

namespace {

constexpr double inconsistent =
    1e-6;  // a relative residual that rounds cannot get below: (A2) has no solution

PointBlock zeros_like(const PointBlock& v) {
  return {.x = DenseMatrix::Zero(v.x.rows(), v.x.cols()),
          .y = DenseMatrix::Zero(v.y.rows(), v.y.cols()),
          .z = DenseMatrix::Zero(v.z.rows(), v.z.cols()),
          .z_box = DenseMatrix::Zero(v.z_box.rows(), v.z_box.cols())};
}

/// Any vector without structure will do; this one is the same everywhere.
Vector generic_vector(Index n) {
  Vector v(n);
  for (Index i = 0; i < n; ++i)
    v[i] = std::sin(1.0 + 1.7 * static_cast<double>(i) * (1.0 + 0.013 * static_cast<double>(i)));
  return v;
}

}  // namespace

template <Matrix M>
PointBlock RoundsLinearisation<M>::solve(const PointBlock& right_side) const {
  PointBlock b = program_->right_side_from_user(right_side);
  PointBlock t = zeros_like(b);
  const RoundReport report = alternating_rounds(program_->qp, system_, set_, b, t, limits_);
  if (!(report.residual <= std::max(inconsistent, limits_.tolerance))) {
    b.x += report.remainder.x;
    b.y += report.remainder.y;
    b.z += report.remainder.z;
    b.z_box += report.remainder.z_box;
    t = zeros_like(b);
    alternating_rounds(program_->qp, system_, set_, b, t, limits_);
  }
  return program_->to_user(t);
}

template <Matrix M>
bool RoundsLinearisation<M>::regular() const {
  const auto& qp = program_->qp;
  const PointBlock b{.x = generic_vector(qp.n()),
                     .y = DenseMatrix::Zero(qp.p(), 1),
                     .z = DenseMatrix::Zero(qp.m(), 1),
                     .z_box = DenseMatrix::Zero(qp.n(), 1)};
  PointBlock t = zeros_like(b);
  RoundLimits limits = limits_;
  limits.tolerance = std::min(limits.tolerance, inconsistent);
  return alternating_rounds(qp, system_, set_, b, t, limits).residual <= inconsistent;  // (A4)
}

template <Matrix M>
ActiveSet RoundsLinearisation<M>::active() const {
  ActiveSet user{.z = Vector::Zero(program_->m_user), .box = set_.box};
  user.z(program_->rows) = set_.z;
  return user;
}

template class RoundsLinearisation<DenseMatrix>;
template class RoundsLinearisation<SparseMatrix>;

}  // namespace altdiff::detail
