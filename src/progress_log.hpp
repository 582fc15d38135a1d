#pragma once

#include <altdiff/settings.hpp>
#include <altdiff/solution.hpp>
#include <array>
#include <cstdio>
#include <string>

namespace altdiff::detail {

// What a solve of one program tells of itself, where there is a log.

inline Index stored(const DenseMatrix& X) { return X.size(); }
inline Index stored(const SparseMatrix& X) { return X.nonZeros(); }

template <class... Values>
void log_line(const Settings& settings, const char* format, Values... values) {
  if (!settings.log) return;
  std::array<char, 240> line{};
  (void)std::snprintf(line.data(), line.size(), format, values...);
  settings.log(line.data());
}

template <Matrix M>
void log_end(const Settings& settings, const Solution<M>& solution, double seconds) {
  log_line(settings, "%s after %d iterations and %.3f s: objective %.10g, primal %.1e, dual %.1e, gap %.1e",
           std::string(name(solution.status)).c_str(), solution.iterations, seconds, solution.objective,
           solution.primal_residual, solution.dual_residual, solution.duality_gap);
}

}  // namespace altdiff::detail
