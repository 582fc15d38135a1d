#pragma once

#include <altdiff/altdiff.hpp>
#include <random>
#include <vector>

namespace altdiff::benchmarks {

/// A random batch: P = LL'/n + 0.1 I, A, G, q normal, b = A x0, h = G x0 + U(0, 1).
struct Workload {
  BatchProgram program{};
  std::vector<double> P{}, q{}, G{}, h{}, A{}, b{};
  std::vector<double> x_bar{};
  std::vector<double> P_bar{}, q_bar{}, G_bar{}, h_bar{}, A_bar{}, b_bar{};

  Workload(Index n, Index m, Index p, Index size, bool shared);
  Workload(Workload&&) = default;

 private:
  Workload() = default;
  void set_fields(Index matrices);

 public:
  /// Energy scheduling: min |x - load|^2, |x_{t+1} - x_t| <= limit, 24 hours an instance; the matrices are
  /// shared.
  [[nodiscard]] static Workload energy(Index size);

  [[nodiscard]] BatchGradient gradient() {
    return {P_bar.data(), q_bar.data(), G_bar.data(), h_bar.data(),
            A_bar.data(), b_bar.data(), nullptr,      nullptr};
  }
};

}  // namespace altdiff::benchmarks
