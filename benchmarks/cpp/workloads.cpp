#include "workloads.hpp"

#include <cmath>

namespace altdiff::benchmarks {

namespace {

std::mt19937 generator(0);  // NOLINT: the same numbers in every run are what is wanted

DenseMatrix random_matrix(Index rows, Index columns) {
  std::normal_distribution<double> normal;
  return DenseMatrix::NullaryExpr(rows, columns, [&] { return normal(generator); });
}

void append(std::vector<double>& target, const DenseMatrix& numbers) {
  target.insert(target.end(), numbers.data(), numbers.data() + numbers.size());
}

}  // namespace

Workload::Workload(Index n, Index m, Index p, Index size, bool shared) {
  program = {.size = size, .n = n, .m = m, .p = p};
  std::uniform_real_distribution<double> uniform;
  DenseMatrix G_rows;
  DenseMatrix A_rows;
  for (Index i = 0; i < size; ++i) {
    if (i == 0 || !shared) {
      const DenseMatrix L = random_matrix(n, n);
      append(P, L * L.transpose() / static_cast<double>(n) + 0.1 * DenseMatrix::Identity(n, n));
      append(G, G_rows = random_matrix(n, m));
      append(A, A_rows = random_matrix(n, p));
    }
    append(q, random_matrix(n, 1));
    const Vector x = random_matrix(n, 1);
    append(b, A_rows.transpose() * x);
    append(h, G_rows.transpose() * x + Vector::NullaryExpr(m, [&] { return uniform(generator); }));
  }
  append(x_bar, random_matrix(n, size));
  set_fields(shared ? 1 : size);
}

Workload Workload::energy(Index size) {
  constexpr Index hours = 24;
  constexpr Index steps = hours - 1;
  constexpr double limit = 0.8;
  Workload batch;
  batch.program = {.size = size, .n = hours, .m = 2 * steps, .p = 0};
  append(batch.P, 2 * DenseMatrix::Identity(hours, hours));
  DenseMatrix G_rows = DenseMatrix::Zero(hours, 2 * steps);
  for (Index t = 0; t < steps; ++t) {
    G_rows(t + 1, t) = G_rows(t, steps + t) = 1;
    G_rows(t, t) = G_rows(t + 1, steps + t) = -1;
  }
  append(batch.G, G_rows);
  for (Index i = 0; i < size; ++i) {
    Vector load = 0.3 * random_matrix(hours, 1);
    for (Index t = 0; t < hours; ++t) load[t] += 4 * std::sin(0.2618 * static_cast<double>(t));
    append(batch.q, -2 * load);
    append(batch.h, Vector::Constant(2 * steps, limit));
  }
  append(batch.x_bar, random_matrix(hours, size));
  batch.set_fields(1);
  return batch;
}

void Workload::set_fields(Index matrices) {
  const auto set = [&](Field field, const std::vector<double>& numbers, std::vector<double>& bar,
                       Index count) {
    program[field].data = numbers.data();
    program[field].count = count;
    bar.resize(numbers.size());
  };
  set(Field::P, P, P_bar, matrices);
  set(Field::q, q, q_bar, program.size);
  set(Field::G, G, G_bar, matrices);
  set(Field::h, h, h_bar, program.size);
  set(Field::A, A, A_bar, matrices);
  set(Field::b, b, b_bar, program.size);
}

}  // namespace altdiff::benchmarks
