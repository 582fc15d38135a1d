#pragma once

#include <functional>
#include <limits>
#include <string>

namespace altdiff {

enum class Method {
  Auto,           ///< the engine that serves the problem
  ActiveSet,      ///< dense and strictly convex: in constraint space
  InteriorPoint,  ///< any convex program, dense or sparse
  Alternating,    ///< ADMM, as in the paper, with adaptive penalty
};

struct Settings {
  double tolerance = 1e-8;           ///< bounds the residuals (R1), (R2) and the gap (R3)
  double gradient_tolerance = 1e-8;  ///< bounds the residual (R4) of derivatives
  int max_iterations = 10000;        ///< rounds of the alternating engine, changes of an active set
  /// Seconds for the whole call, all instances of a batch together. After that nothing new begins, and what
  /// is not solved ends as TimeLimit, with its last iterate or NaN; what is solved is kept however late it
  /// is. A call may be late by one factorisation, or a tenth of a second. A limit so short that it passes
  /// before the first step may still end in Solved, where the first point is the solution.
  double time_limit = std::numeric_limits<double>::infinity();
  Method method = Method::Auto;
  int num_threads = 0;  ///< of BLAS for one large problem; 0: all that this process may use
  double rho = 0.1;     ///< first penalty of the alternating engine; it adapts
  bool finish = true;  ///< refine the engine's point to machine precision on its active set; false: the point
                       ///< as the engine leaves it, and Auto is Alternating
  std::function<void(const std::string&)>
      log{};                     ///< receives one line per report of progress, on the caller's thread; empty: silence
  std::function<void()> poll{};  ///< called now and then, on the caller's thread; what it throws ends the
                                 ///< solve. Watch does the same for everything else
};

}  // namespace altdiff
