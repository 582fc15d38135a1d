#include "engines/infeasibility.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/norms.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

constexpr double rounding = 1e-13;  // of the largest multiplier, what one that should be zero may have
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
  const double negligible = rounding * std::max(norm(proof.y), norm(proof.z));
  const auto drop = [&](double v) { return std::abs(v) <= negligible ? 0.0 : v; };
  proof.y = proof.y.unaryExpr(drop).eval();
  proof.z = proof.z.unaryExpr(drop).eval();
}

}  // namespace

std::vector<Point> find_primal_proof(const QuadraticProgram<SparseMatrix>& qp, const SolveWellPosed& solve) {
  const Index n = qp.n();
  const Index p = qp.p();
  const std::vector<Index> rows = finite_rows(qp.h);
  const auto m = static_cast<Index>(rows.size());
  const Index size = n + p + m;
  Entries P;
  Entries A;
  Entries G;
  append_diagonal(n, n, p + m, 1, P);
  append(qp.A, 0, A);
  append_diagonal(0, n, p, 1, A);
  append(pick_rows(qp.G, rows), 0, G);
  append_diagonal(0, n + p, m, -1, G);
  Vector lb = Vector::Constant(size, -infinite);
  Vector ub = Vector::Constant(size, infinite);
  lb.head(n) = qp.lb;
  ub.head(n) = qp.ub;
  const std::vector<Point> solutions = solve({.P = matrix(size, size, P),
                                              .q = Vector::Zero(size),
                                              .G = matrix(m, size, G),
                                              .h = qp.h(rows),
                                              .A = matrix(p, size, A),
                                              .b = qp.b,
                                              .lb = lb,
                                              .ub = ub});
  std::vector<Point> proofs;
  for (const Point& v : solutions) {
    Point& proof = proofs.emplace_back(zero_point(qp));
    proof.y = -v.x.segment(n, p);
    proof.z(rows) = v.x.tail(m);
    drop_rounding(proof);
  }
  return proofs;  // (C4)
}

std::vector<Point> find_dual_proof(const QuadraticProgram<SparseMatrix>& qp, const SolveWellPosed& solve) {
  const Index n = qp.n();
  const Index p = qp.p();
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
  const std::vector<Point> solutions = solve({.P = matrix(n, n, P),
                                              .q = qp.q,
                                              .G = pick_rows(qp.G, rows),
                                              .h = Vector::Zero(static_cast<Index>(rows.size())),
                                              .A = matrix(n + p, n, A),
                                              .b = Vector::Zero(n + p),
                                              .lb = lb,
                                              .ub = ub});
  std::vector<Point> proofs;
  for (const Point& v : solutions) proofs.emplace_back(zero_point(qp)).x = v.x;
  return proofs;  // (C5)
}

}  // namespace altdiff::detail
