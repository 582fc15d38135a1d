// Whole batches: forward, and backward with the gradients of all six fields.
//   altdiff_benchmarks --benchmark_filter=forward
// Arguments: n, m, p, instances, shared matrices (1) or each its own (0), threads.

#include <benchmark/benchmark.h>

#include "workloads.hpp"

namespace altdiff::benchmarks {

namespace {

Workload workload(const benchmark::State& state) {
  if (state.range(2) == 0) return Workload::energy(state.range(3));
  return {state.range(0), state.range(1), state.range(2), state.range(3), state.range(4) != 0};
}

Settings settings(const benchmark::State& state) { return {.num_threads = static_cast<int>(state.range(5))}; }

void forward(benchmark::State& state) {
  const Workload batch = workload(state);
  for (auto _ : state) benchmark::DoNotOptimize(solve(batch.program, settings(state)));
  state.SetItemsProcessed(state.iterations() * batch.program.size);
}

void backward(benchmark::State& state) {
  Workload batch = workload(state);
  const BatchSolution solution = solve(batch.program, settings(state));
  for (auto _ : state)
    vjp(batch.program, solution, {.x = batch.x_bar.data()}, batch.gradient(), {},
        settings(state).num_threads);
  state.SetItemsProcessed(state.iterations() * batch.program.size);
}

void workloads(benchmark::internal::Benchmark* registered) {
  registered->ArgNames({"n", "m", "p", "size", "shared", "threads"})
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
  for (const int threads : {1, 2}) {
    registered->Args({20, 20, 5, 1, 0, threads});
    registered->Args({100, 100, 20, 1, 0, threads});
    registered->Args({10, 10, 4, 1024, 0, threads});
    registered->Args({50, 50, 10, 256, 0, threads});
    registered->Args({100, 100, 20, 128, 0, threads});
    registered->Args({200, 50, 50, 64, 1, threads});
    registered->Args({100, 300, 10, 256, 1, threads});
    registered->Args({24, 46, 0, 64, 1, threads});
    registered->Args({3000, 1000, 500, 1, 0, threads});
  }
}

BENCHMARK(forward)->Apply(workloads);
BENCHMARK(backward)->Apply(workloads);

}  // namespace

}  // namespace altdiff::benchmarks
