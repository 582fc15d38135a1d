#pragma once

#include <altdiff/altdiff.hpp>
#include <random>

namespace altdiff::test {

/// Numbers that are the same on every machine.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  double uniform() { return static_cast<double>(engine_()) / static_cast<double>(std::mt19937::max()); }
  double normal() {  // a sum of uniforms is close enough, and the same everywhere
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += uniform();
    return sum;
  }
  Vector normals(Index n) {
    Vector v(n);
    for (auto& value : v) value = normal();
    return v;
  }
  DenseMatrix normals(Index rows, Index columns) {
    DenseMatrix X(rows, columns);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j) X(i, j) = normal();
    return X;
  }

 private:
  std::mt19937 engine_;
};

/// A strictly convex program with a feasible point; with `bounds` every variable has one on each side.
inline QuadraticProgram<> random_program(unsigned seed, Index n, Index m, Index p, bool bounds = false) {
  Random random(seed);
  const DenseMatrix L = random.normals(n, n);
  const Vector x = random.normals(n);
  QuadraticProgram<> qp{.P = L * L.transpose() / static_cast<double>(n) + 0.1 * DenseMatrix::Identity(n, n),
                        .q = random.normals(n),
                        .G = random.normals(m, n),
                        .A = random.normals(p, n)};
  qp.h = qp.G * x;
  for (auto& value : qp.h) value += random.uniform();
  qp.b = qp.A * x;
  if (bounds) {
    qp.lb = x;
    qp.ub = x;
    for (auto& value : qp.lb) value -= 0.1 + random.uniform();
    for (auto& value : qp.ub) value += 0.1 + random.uniform();
  }
  return qp;
}

inline QuadraticProgram<SparseMatrix> sparse(const QuadraticProgram<>& qp) {
  return {.P = qp.P.sparseView(),
          .q = qp.q,
          .G = qp.G.sparseView(),
          .h = qp.h,
          .A = qp.A.sparseView(),
          .b = qp.b,
          .lb = qp.lb,
          .ub = qp.ub};
}

}  // namespace altdiff::test
