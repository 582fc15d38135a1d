#include "smooth/first_point.hpp"

#include <algorithm>
#include <altdiff/solve.hpp>
#include <cmath>
#include <limits>

#include "batch/grouping.hpp"
#include "linalg/norms.hpp"
#include "problem/checks.hpp"
#include "solve_one.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double epsilon = 1e-3;
constexpr double out_of_reach = 1e-3;   // what s costs beside delta
constexpr double inside_enough = 1e-9;  // delta that counts as inside

bool inside(const std::vector<InstanceTerm>& terms, const Vector& x) {
  InstanceTerm::Workspace workspace;
  Vector gradient = Vector::Zero(x.size());
  return std::ranges::all_of(terms, [&](const InstanceTerm& term) {
    return std::isfinite(term.add(x.data(), gradient.data(), nullptr, workspace)) && gradient.allFinite();
  });
}

/// (N7) in x, delta and s.
QuadraticProgram<DenseMatrix> widest(const std::vector<InstanceTerm>& terms, const Instance& instance,
                                     const Vector& x, double weight, double cost) {
  const Index n = x.size();
  const QuadraticProgram<DenseMatrix> user = normalised(program_of(instance));
  Index rows = user.m();
  for (const InstanceTerm& term : terms) rows += term.domain_rows() + term.reach_rows();
  QuadraticProgram<DenseMatrix> qp;
  qp.P = weight * DenseMatrix::Identity(n + 2, n + 2);
  qp.q = Vector::Constant(n + 2, -1);
  qp.q.head(n) = -weight * x;
  qp.q[n + 1] = cost;
  qp.A = DenseMatrix::Zero(user.p(), n + 2);
  qp.A.leftCols(n) = user.A;
  qp.b = user.b;
  qp.G = DenseMatrix::Zero(rows, n + 2);
  qp.h = Vector::Zero(rows);
  qp.G.topLeftCorner(user.m(), n) = user.G;
  qp.h.head(user.m()) = user.h;
  Index first = user.m();
  for (const InstanceTerm& term : terms) first = term.add_domain(first, qp.G, qp.h);
  for (const InstanceTerm& term : terms) first = term.add_reach(first, qp.G, qp.h);
  qp.lb = Vector::Constant(n + 2, -infinity);
  qp.ub = Vector::Constant(n + 2, infinity);
  qp.lb.head(n) = user.lb;
  qp.ub.head(n) = user.ub;
  qp.ub[n] = 1;
  qp.lb[n + 1] = 0;
  return qp;
}

/// Those of the user's constraints; the domain's rows have none of their own to go to.
Point multipliers_of(const Point& found, const Instance& instance) {
  return {
      .y = found.y, .z = found.z.head(instance.matrices.m), .z_box = found.z_box.head(instance.matrices.n)};
}

/// (N7) with this epsilon, and a cost of s.
FirstPoint widest_near(const std::vector<InstanceTerm>& terms, const Instance& instance, const Vector& x,
                       double weight, double cost) {
  const Index n = instance.matrices.n;
  const auto found = solve_one(widest(terms, instance, x, weight, cost), Settings{}, {});
  FirstPoint first{.status = found.status, .proof = multipliers_of(found, instance)};
  if (found.status != Status::Solved) return first;
  first.x = found.x.head(n);
  const VectorsView data = instance.vectors();
  if (data.lb.size() > 0) first.x = first.x.cwiseMax(data.lb);
  if (data.ub.size() > 0) first.x = first.x.cwiseMin(data.ub);
  const double delta = found.x[n];
  if (delta > inside_enough && inside(terms, first.x)) return first;
  const bool closed = std::ranges::all_of(
      terms, [](const InstanceTerm& term) { return term.domain_rows() == 0 || term.phi().closed(); });
  const bool none = delta < -inside_enough || (!closed && delta <= inside_enough);
  first.status = none ? Status::PrimalInfeasible : Status::NumericalError;
  return first;
}

}  // namespace

Vector likely_point(const std::vector<InstanceTerm>& terms, const Instance& instance) {
  const Index n = instance.matrices.n;
  const VectorsView data = instance.vectors();
  Vector lower = Vector::Constant(n, -infinity);
  Vector upper = Vector::Constant(n, infinity);
  if (data.lb.size() > 0) lower = data.lb;
  if (data.ub.size() > 0) upper = data.ub;
  Vector x = Vector::Zero(n);
  for (const InstanceTerm& term : terms) {
    if (term.quadratic() || term.map() != nullptr) continue;
    for (Index j = 0; j < n; ++j) {
      if (!term.present(j)) continue;
      const double offset = term.offset() != nullptr ? term.offset()[j] : 0;
      lower[j] = std::max(lower[j], offset + term.phi().lower());
      upper[j] = std::min(upper[j], offset + term.phi().upper());
      if (std::isfinite(term.phi().lower())) x[j] = offset + term.phi().inside();
    }
  }
  for (Index j = 0; j < n; ++j) {
    if (x[j] > lower[j] && x[j] < upper[j]) continue;
    const double inside = std::min(1.0, 0.5 * (upper[j] - lower[j]));
    x[j] = x[j] <= lower[j] ? lower[j] + inside : upper[j] - inside;
  }
  return x;
}

FirstPoint first_point(const std::vector<InstanceTerm>& terms, const Instance& instance) {
  FirstPoint first{.status = Status::Solved, .x = likely_point(terms, instance)};
  if (inside(terms, first.x)) return first;
  return widest_point(terms, instance);
}

FirstPoint widest_point(const std::vector<InstanceTerm>& terms, const Instance& instance) {
  const Vector x = likely_point(terms, instance);
  const double size = 1 + norm(x);
  // That x_0 is far from the domain, or that e^t is large there, must not look as if it were empty: where it
  // does, they count for less, and in the end for nothing.
  for (const double share : {1.0, 1e-6}) {
    FirstPoint first = widest_near(terms, instance, x, share * epsilon / (size * size), share * out_of_reach);
    if (first.status == Status::Solved) return first;
  }
  return widest_near(terms, instance, x, 0, 0);
}

}  // namespace altdiff::detail
