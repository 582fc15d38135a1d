#include "engines/infeasibility.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/norms.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

constexpr double rounding = 1e-13;  // of the largest multiplier, what one that should be zero may have
constexpr double far_away = 1e6;    // from what is looked at
constexpr double smallest_violation = 1e-10;  // that (C1) might call one
constexpr double out_of_proportion = 1e-2;    // an e below this, beside data of order one
constexpr int most_looks = 3;
constexpr double infinite = std::numeric_limits<double>::infinity();

using Entries = std::vector<Eigen::Triplet<double>>;

void append(const SparseMatrix& X, Index first_row, Entries& entries) {
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it)
      entries.emplace_back(static_cast<int>(first_row + it.row()), static_cast<int>(j), it.value());
}

void append_diagonal(Index first_row, Index first_column, Index count, double value, Entries& entries) {
  for (Index i = 0; i < count; ++i)
    entries.emplace_back(static_cast<int>(first_row + i), static_cast<int>(first_column + i), value);
}

SparseMatrix matrix(Index rows, Index columns, const Entries& entries) {
  SparseMatrix X(rows, columns);
  X.setFromTriplets(entries.begin(), entries.end());
  X.makeCompressed();
  return X;
}

Point zero_point(const QuadraticProgram<SparseMatrix>& qp) {
  return {.x = Vector::Zero(qp.n()),
          .y = Vector::Zero(qp.p()),
          .z = Vector::Zero(qp.m()),
          .z_box = Vector::Zero(qp.n())};
}

/// Where a row such as 0 x <= -1 is all of the proof, the others must not take part at all: their rounding
/// would be all of A'y + G'z.
void drop_rounding(Point& proof) {
  const double negligible = rounding * std::max({norm(proof.x), norm(proof.y), norm(proof.z)});
  const auto drop = [&](double v) { return std::abs(v) <= negligible ? 0.0 : v; };
  for (Vector* part : {&proof.x, &proof.y, &proof.z}) *part = part->unaryExpr(drop).eval();
}

/// The constraints seen from another origin, in other units of x: x = origin + unit u. Limits that are far
/// away from there are left out.
struct Zoom {
  std::vector<Index> rows;
  Vector b, h, lb, ub;

  Zoom(const QuadraticProgram<SparseMatrix>& qp, const Vector& origin, double unit)
      : b((qp.b - qp.A * origin) / unit) {
    const double far = unit < 1 ? far_away : infinite;
    const Vector slack = (qp.h - qp.G * origin) / unit;
    for (Index i = 0; i < slack.size(); ++i)
      if (!never_binds(qp.h[i]) && slack[i] <= far) rows.push_back(i);
    h = slack(rows);
    const auto without_far = [&](double v) { return std::abs(v) <= far ? v : std::copysign(infinite, v); };
    lb = ((qp.lb - origin) / unit).unaryExpr(without_far);
    ub = ((qp.ub - origin) / unit).unaryExpr(without_far);
  }
};

/// (C4), for the constraints as `zoom` sees them.
QuadraticProgram<SparseMatrix> phase_one(const QuadraticProgram<SparseMatrix>& qp, const Zoom& zoom) {
  const Index n = qp.n();
  const Index p = qp.p();
  const auto m = static_cast<Index>(zoom.rows.size());
  const Index size = n + p + m;
  Entries P;
  Entries A;
  Entries G;
  append_diagonal(n, n, p + m, 1, P);
  append(qp.A, 0, A);
  append_diagonal(0, n, p, 1, A);
  append(pick_rows(qp.G, zoom.rows), 0, G);
  append_diagonal(0, n + p, m, -1, G);
  Vector lb = Vector::Constant(size, -infinite);
  Vector ub = Vector::Constant(size, infinite);
  lb.head(n) = zoom.lb;
  ub.head(n) = zoom.ub;
  return {.P = matrix(size, size, P),
          .q = Vector::Zero(size),
          .G = matrix(m, size, G),
          .h = zoom.h,
          .A = matrix(p, size, A),
          .b = zoom.b,
          .lb = lb,
          .ub = ub};
}

/// (C5), for descent along -q.
QuadraticProgram<SparseMatrix> projection(const QuadraticProgram<SparseMatrix>& qp, const Vector& q) {
  const Index n = qp.n();
  const std::vector<Index> rows = finite_rows(qp.h);
  Entries P;
  Entries A;
  append_diagonal(0, 0, n, 1, P);
  append(qp.P, 0, A);
  append(qp.A, n, A);
  Vector lb = Vector::Constant(n, -infinite);
  Vector ub = Vector::Constant(n, infinite);
  for (Index j = 0; j < n; ++j) {
    if (std::isfinite(qp.lb[j])) lb[j] = 0;
    if (std::isfinite(qp.ub[j])) ub[j] = 0;
  }
  return {.P = matrix(n, n, P),
          .q = q,
          .G = pick_rows(qp.G, rows),
          .h = Vector::Zero(static_cast<Index>(rows.size())),
          .A = matrix(n + qp.p(), n, A),
          .b = Vector::Zero(n + qp.p()),
          .lb = lb,
          .ub = ub};
}

}  // namespace

PhaseOne find_primal_proof(const QuadraticProgram<SparseMatrix>& qp, const SolveWellPosed& solve,
                           const Proves& proves) {
  Vector origin = Vector::Zero(qp.n());
  Vector nearest;
  double unit = 1;
  for (int look = 0; look < most_looks; ++look) {
    const Zoom zoom(qp, origin, unit);
    const std::vector<Point> solutions = solve(phase_one(qp, zoom));
    for (const Point& v : solutions) {
      Point proof = zero_point(qp);
      proof.y = -v.x.segment(qp.n(), qp.p());
      proof.z(zoom.rows) = v.x.tail(static_cast<Index>(zoom.rows.size()));
      drop_rounding(proof);
      if (proves(proof)) return {.proved = true};
    }
    // An e of 1e-7 is known to nine digits, which is not enough: seen from near by it is of order one.
    if (solutions.empty()) break;
    origin += unit * solutions[0].x.head(qp.n());
    nearest = origin;
    const double size = norm(solutions[0].x.tail(qp.p() + static_cast<Index>(zoom.rows.size())));
    const bool in_proportion = size > smallest_violation / unit && size < out_of_proportion;
    if (!in_proportion) break;
    unit *= size;
  }
  return {.nearest = nearest};  // (C4)
}

bool find_dual_proof(const QuadraticProgram<SparseMatrix>& qp, const SolveWellPosed& solve,
                     const Proves& proves) {
  Vector q = qp.q;
  for (int look = 0; look < most_looks; ++look) {
    const std::vector<Point> solutions = solve(projection(qp, q));
    Point proof = zero_point(qp);
    for (const Point& v : solutions) {
      proof.x = v.x;
      drop_rounding(proof);
      if (proves(proof)) return true;
    }
    // Where -q is almost at right angles to them, the projection of what was found is more precise.
    if (solutions.empty() || !(norm(solutions[0].x) > 0)) return false;
    q = -solutions[0].x / norm(solutions[0].x);
  }
  return false;  // (C5)
}

}  // namespace altdiff::detail
