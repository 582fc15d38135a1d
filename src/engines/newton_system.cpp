#include "engines/newton_system.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr int most_refinements = 12;
constexpr double solved_badly = 1e-9;  // above, another floor is tried
/// What the factorisation adds at least to the diagonal: about the root of the rounding unit. Refinement
/// takes it off again; where it cannot, the others are tried.
constexpr std::array floors{1e-8, 1e-10, 1e-12, 1e-14, 1e-6};

std::vector<Index> where(const Vector& lb, const Vector& ub, auto condition) {
  std::vector<Index> indices;
  for (Index j = 0; j < lb.size(); ++j)
    if (condition(lb[j], ub[j])) indices.push_back(j);
  return indices;
}

Index length(const std::vector<Index>& v) { return static_cast<Index>(v.size()); }

}  // namespace

template <Matrix M>
double NewtonSystem<M>::Unknowns::size() const {
  return std::max({norm(x), norm(y), norm(z)});
}

template <Matrix M>
NewtonSystem<M>::NewtonSystem(const QuadraticProgram<M>& qp, AugmentedSystem<M> system)
    : qp_(qp),
      fixed_(where(qp.lb, qp.ub, [](double l, double u) { return l == u; })),
      lower_(where(qp.lb, qp.ub, [](double l, double u) { return l < u && std::isfinite(l); })),
      upper_(where(qp.lb, qp.ub, [](double l, double u) { return l < u && std::isfinite(u); })),
      n_(qp.n()),
      p_(qp.p()),
      m_(qp.m()),
      e_(p_ + length(fixed_)),
      c_(m_ + length(lower_) + length(upper_)),
      system_(std::move(system)),
      R_y_(e_.size()),
      R_z_(c_.size()),
      floor_(floors[0]),
      r_{.x = Vector(n_), .y = Vector(e_.size()), .z = Vector(c_.size())},
      correction_(r_),
      workspace_(system_.workspace_size()),
      box_(n_) {
  e_ << qp.b, qp.lb(fixed_);
  c_ << qp.h, -qp.lb(lower_), qp.ub(upper_);
  R_ = {.sigma = 0, .A = Vector(p_), .G = Vector(m_), .box = Vector(n_)};
}

template <Matrix M>
void NewtonSystem<M>::add_E(double alpha, const Vector& x, Vector& y) const {
  add_product(alpha, qp_.A, x, y.head(p_));
  for (Index i = 0; i < length(fixed_); ++i) y[p_ + i] += alpha * x[fixed_[static_cast<std::size_t>(i)]];
}

template <Matrix M>
void NewtonSystem<M>::add_E_transposed(double alpha, const Vector& y, Vector& x) const {
  add_transposed_product(alpha, qp_.A, y.head(p_), x);
  for (Index i = 0; i < length(fixed_); ++i) x[fixed_[static_cast<std::size_t>(i)]] += alpha * y[p_ + i];
}

template <Matrix M>
void NewtonSystem<M>::add_C(double alpha, const Vector& x, Vector& z) const {
  add_product(alpha, qp_.G, x, z.head(m_));
  Index row = m_;
  for (const Index j : lower_) z[row++] -= alpha * x[j];
  for (const Index j : upper_) z[row++] += alpha * x[j];
}

template <Matrix M>
void NewtonSystem<M>::add_C_transposed(double alpha, const Vector& z, Vector& x) const {
  add_transposed_product(alpha, qp_.G, z.head(m_), x);
  Index row = m_;
  for (const Index j : lower_) x[j] -= alpha * z[row++];
  for (const Index j : upper_) x[j] += alpha * z[row++];
}

template <Matrix M>
Point NewtonSystem<M>::as_point(const Unknowns& v) const {
  Point point{.x = v.x, .y = v.y.head(p_), .z = v.z.head(m_), .z_box = Vector::Zero(n_)};
  for (Index i = 0; i < length(fixed_); ++i) point.z_box[fixed_[static_cast<std::size_t>(i)]] = v.y[p_ + i];
  Index row = m_;
  for (const Index j : lower_) point.z_box[j] -= v.z[row++];
  for (const Index j : upper_) point.z_box[j] += v.z[row++];
  return point;
}

template <Matrix M>
bool NewtonSystem<M>::factorise(double floor) {
  const double delta = std::max(delta_, floor);
  R_.sigma = std::max(rho_, floor);
  R_y_.setConstant(1 / delta);
  R_z_ = (w_.array() + delta).inverse();
  R_.A = R_y_.head(p_);
  R_.G = R_z_.head(m_);
  R_.box.setZero();
  for (const Index j : fixed_) R_.box[j] = 1 / delta;
  Index row = m_;
  for (const Index j : lower_) R_.box[j] += R_z_[row++];
  for (const Index j : upper_) R_.box[j] += R_z_[row++];
  return system_.factorise(qp_.P, qp_.A, qp_.G, R_);
}

template <Matrix M>
bool NewtonSystem<M>::factorise(const Vector& w, double rho, double delta) {
  w_ = w;
  rho_ = rho;
  delta_ = delta;
  if (factorise(floor_)) return true;
  return std::ranges::any_of(floors, [&](double floor) {
    floor_ = floor;
    return factorise(floor);
  });
}

/// Right-hand sides of x, E and C in, steps out: bounds and fixed variables share the diagonal of their
/// variable.
template <Matrix M>
void NewtonSystem<M>::solve_roughly(Unknowns& d) {
  box_.setZero();
  for (Index i = 0; i < length(fixed_); ++i)
    box_[fixed_[static_cast<std::size_t>(i)]] += R_y_[p_ + i] * d.y[p_ + i];
  Index row = m_;
  for (const Index j : lower_) {
    box_[j] -= R_z_[row] * d.z[row];
    ++row;
  }
  for (const Index j : upper_) {
    box_[j] += R_z_[row] * d.z[row];
    ++row;
  }
  for (Index j = 0; j < n_; ++j) box_[j] = R_.box[j] > 0 ? box_[j] / R_.box[j] : 0;
  system_.solve(d.x, d.y.head(p_), d.z.head(m_), box_, workspace_);
  for (Index i = 0; i < length(fixed_); ++i)
    d.y[p_ + i] = R_y_[p_ + i] * (d.x[fixed_[static_cast<std::size_t>(i)]] - d.y[p_ + i]);
  row = m_;
  for (const Index j : lower_) {
    d.z[row] = R_z_[row] * (-d.x[j] - d.z[row]);
    ++row;
  }
  for (const Index j : upper_) {
    d.z[row] = R_z_[row] * (d.x[j] - d.z[row]);
    ++row;
  }
}

/// r -= the matrix of (I2) times d, with the true rho and delta.
template <Matrix M>
void NewtonSystem<M>::subtract_product(const Unknowns& d, Unknowns& r) const {
  r.x -= rho_ * d.x;
  add_product(-1, qp_.P, d.x, r.x);
  add_E_transposed(-1, d.y, r.x);
  add_C_transposed(-1, d.z, r.x);
  r.y += delta_ * d.y;
  add_E(-1, d.x, r.y);
  r.z += (w_.array() + delta_).matrix().cwiseProduct(d.z);
  add_C(-1, d.x, r.z);
}

/// Returns the relative error.
template <Matrix M>
double NewtonSystem<M>::refine(const Unknowns& right_side, double accuracy, Unknowns& d) {
  const double scale = std::max(right_side.size(), std::numeric_limits<double>::min());
  d = right_side;
  solve_roughly(d);
  double error = std::numeric_limits<double>::infinity();
  for (int k = 0;; ++k) {
    r_ = right_side;
    subtract_product(d, r_);
    const double now = r_.size() / scale;
    if (!(now < error)) {
      if (k > 0) {  // the last correction made it worse
        d.x -= correction_.x;
        d.y -= correction_.y;
        d.z -= correction_.z;
      }
      return error;
    }
    const bool slow = now > 0.5 * error && k > 3;
    error = now;
    if (error <= accuracy || k == most_refinements || slow) return error;
    correction_ = r_;
    solve_roughly(correction_);
    d.x += correction_.x;
    d.y += correction_.y;
    d.z += correction_.z;
  }
}

template <Matrix M>
bool NewtonSystem<M>::solve(const Unknowns& right_side, double accuracy, Unknowns& d) {
  const double needed = std::max(accuracy, solved_badly);
  double least = refine(right_side, accuracy, d);
  if (!(least <= needed)) {
    Unknowns best = d;
    const double first = floor_;
    for (const double floor : floors) {
      if (floor == first || !factorise(floor)) continue;
      const double error = refine(right_side, accuracy, d);
      if (error < least) {
        best = d;
        least = error;
        floor_ = floor;
      }
      if (least <= needed) break;
    }
    d = std::move(best);
    if (!factorise(floor_)) return false;
  }
  return std::isfinite(least) && d.x.allFinite() && d.y.allFinite() && d.z.allFinite();
}

template class NewtonSystem<DenseMatrix>;
template class NewtonSystem<SparseMatrix>;

}  // namespace altdiff::detail
