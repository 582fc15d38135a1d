#include "derivatives/active_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {
constexpr double sign_tolerance = 1e-11;  // a multiplier or slack above minus this counts as not negative
constexpr double nearly = 1e-10;          // of its size: a slack or a multiplier below it is zero
constexpr double of_largest_x = 1e-2;     // what rounding of a variable that is zero is relative to
constexpr double smallest_slack = 1e-3;   // that slacks are relative to: rounds leave 1e-14
constexpr double smallest_size = 1e-4;    // that multipliers are relative to, and to what P x is the sum of
constexpr double no_push = 1e-13;         // of a fixed variable, relative to the gradient
constexpr double rounding = 1e-14;        // of a multiplier and a slack, relative to their sizes

}  // namespace

template <Matrix M>
ActiveSet active_rows(const QuadraticProgram<M>& qp, const Point& v) {
  const Vector s = qp.h - qp.G * v.x;
  ActiveSet S{.z = Vector::Zero(qp.m()), .box = Vector::Zero(qp.n())};
  for (Index i = 0; i < qp.m(); ++i) S.z[i] = v.z[i] > s[i] ? 1 : 0;  // (A1)
  for (Index j = 0; j < qp.n(); ++j) {
    if (v.z_box[j] > qp.ub[j] - v.x[j]) S.box[j] = 1;
    if (-v.z_box[j] > v.x[j] - qp.lb[j]) S.box[j] = -1;
    if (qp.lb[j] == qp.ub[j]) S.box[j] = v.z_box[j] < 0 ? -1 : 1;
  }
  return S;
}

template <Matrix M>
int mend(const QuadraticProgram<M>& qp, const Point& v, ActiveSet& S) {
  const Vector s = qp.h - qp.G * v.x;
  const Sizes sizes = sizes_at(qp, v);
  const double multiplier_tolerance = std::max(sign_tolerance, rounding * sizes.gradient);
  const auto violated = [](double slack, double size) {
    return slack < -std::max(sign_tolerance, rounding * size);
  };
  int changes = 0;
  const auto set = [&](double& member, double value) {
    changes += member != value ? 1 : 0;
    member = value;
  };
  for (Index i = 0; i < qp.m(); ++i) {
    if (S.z[i] != 0 && v.z[i] < -multiplier_tolerance) set(S.z[i], 0);
    if (S.z[i] == 0 && violated(s[i], sizes.rows[i])) set(S.z[i], 1);
  }
  for (Index j = 0; j < qp.n(); ++j) {
    const bool fixed = qp.lb[j] == qp.ub[j];
    if (S.box[j] * v.z_box[j] < -multiplier_tolerance) set(S.box[j], fixed ? -S.box[j] : 0);
    if (S.box[j] == 0 && violated(qp.ub[j] - v.x[j], sizes.bounds[j])) set(S.box[j], 1);
    if (S.box[j] == 0 && violated(v.x[j] - qp.lb[j], sizes.bounds[j])) set(S.box[j], -1);
  }
  return changes;
}

template <Matrix M>
void orient_fixed(const QuadraticProgram<M>& qp, Point& v, ActiveSet& S) {
  const double gradient = sizes_at(qp, v).gradient;
  for (Index j = 0; j < qp.n(); ++j) {
    if (qp.lb[j] != qp.ub[j]) continue;
    if (std::abs(v.z_box[j]) <= no_push * gradient) v.z_box[j] = 0;
    S.box[j] = v.z_box[j] < 0 ? -1 : 1;
  }
}

template <Matrix M>
Sizes sizes_at(const QuadraticProgram<M>& qp, const Point& v) {
  const Vector Px = qp.P * v.x;
  const double gradient = std::max({norm(Px), norm(qp.q), norm(v.y), norm(v.z), norm(v.z_box)});
  const double around = std::max(of_largest_x * norm(v.x), smallest_slack);
  return {.rows = (absolute_terms(qp.G, v.x) + qp.h.cwiseAbs()).array() + around,
          .bounds = v.x.cwiseAbs().array() + around,
          .gradient = std::max(gradient, smallest_size * std::max(1.0, norm(absolute_terms(qp.P, v.x))))};
}

template <Matrix M>
double zero_multiplier(const QuadraticProgram<M>& qp, const Point& v) {
  return nearly * sizes_at(qp, v).gradient;
}

template <Matrix M>
ActiveSet touching(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& S) {
  const Vector s = qp.h - qp.G * v.x;
  const Sizes sizes = sizes_at(qp, v);
  const double push = nearly * sizes.gradient;
  ActiveSet C{.z = Vector::Zero(qp.m()), .box = Vector::Zero(qp.n())};
  for (Index i = 0; i < qp.m(); ++i)
    if (s[i] <= nearly * sizes.rows[i] || (S.z[i] != 0 && v.z[i] > push)) C.z[i] = 1;
  for (Index j = 0; j < qp.n(); ++j) {
    const double zero = nearly * sizes.bounds[j];
    if (v.x[j] - qp.lb[j] <= zero) C.box[j] = -1;
    if (qp.ub[j] - v.x[j] <= zero) C.box[j] = 1;
    if (S.box[j] != 0 && (C.box[j] != 0 || S.box[j] * v.z_box[j] > push)) C.box[j] = S.box[j];
  }
  return C;  // (W2)
}

template <Matrix M>
ActiveSet strictly_active(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& rows, double zero) {
  ActiveSet S{.z = rows.z, .box = rows.box};
  for (Index i = 0; i < qp.m(); ++i)
    if (v.z[i] <= zero) S.z[i] = 0;
  for (Index j = 0; j < qp.n(); ++j)
    if (qp.lb[j] != qp.ub[j] && rows.box[j] * v.z_box[j] <= zero) S.box[j] = 0;
  return S;
}

template <Matrix M>
double margin(const QuadraticProgram<M>& qp, const Point& v) {
  const Vector s = qp.h - qp.G * v.x;
  const Sizes sizes = sizes_at(qp, v);
  double smallest = std::numeric_limits<double>::infinity();
  const auto take = [&](double slack, double size, double multiplier) {
    smallest = std::min(smallest, std::max(slack / size, multiplier / sizes.gradient));
  };
  for (Index i = 0; i < qp.m(); ++i) take(s[i], sizes.rows[i], v.z[i]);
  for (Index j = 0; j < qp.n(); ++j) {
    if (qp.lb[j] == qp.ub[j]) continue;  // an equality: it cannot change sides
    take(qp.ub[j] - v.x[j], sizes.bounds[j], v.z_box[j]);
    take(v.x[j] - qp.lb[j], sizes.bounds[j], -v.z_box[j]);
  }
  return smallest + 0.0;  // (G1); not -0
}

template ActiveSet active_rows(const QuadraticProgram<DenseMatrix>&, const Point&);
template ActiveSet active_rows(const QuadraticProgram<SparseMatrix>&, const Point&);
template int mend(const QuadraticProgram<DenseMatrix>&, const Point&, ActiveSet&);
template int mend(const QuadraticProgram<SparseMatrix>&, const Point&, ActiveSet&);
template void orient_fixed(const QuadraticProgram<DenseMatrix>&, Point&, ActiveSet&);
template void orient_fixed(const QuadraticProgram<SparseMatrix>&, Point&, ActiveSet&);
template Sizes sizes_at(const QuadraticProgram<DenseMatrix>&, const Point&);
template Sizes sizes_at(const QuadraticProgram<SparseMatrix>&, const Point&);
template ActiveSet touching(const QuadraticProgram<DenseMatrix>&, const Point&, const ActiveSet&);
template ActiveSet touching(const QuadraticProgram<SparseMatrix>&, const Point&, const ActiveSet&);
template double zero_multiplier(const QuadraticProgram<DenseMatrix>&, const Point&);
template double zero_multiplier(const QuadraticProgram<SparseMatrix>&, const Point&);
template ActiveSet strictly_active(const QuadraticProgram<DenseMatrix>&, const Point&, const ActiveSet&,
                                   double);
template ActiveSet strictly_active(const QuadraticProgram<SparseMatrix>&, const Point&, const ActiveSet&,
                                   double);
template double margin(const QuadraticProgram<DenseMatrix>&, const Point&);
template double margin(const QuadraticProgram<SparseMatrix>&, const Point&);

}  // namespace altdiff::detail
