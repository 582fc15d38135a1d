#pragma once

#include <altdiff/settings.hpp>
#include <optional>

#include "engines/active_set/engine.hpp"
#include "objectives/terms.hpp"

namespace altdiff::detail {

/// A solution whose rows t = M x - o may be closer to the end of their domain than M x can tell.
struct LiftedSolution {
  Point point{};
  double value = 0;
  Residuals residuals{};
  int steps = 0;
  Vector gradient{};              // of f, with the slopes below
  DenseMatrix hessian{};          // with curvatures up to a limit
  std::vector<RowSlopes> rows{};  // one a term; empty: its rows were not lifted
};

/// Newton's method for one instance, in which t of mapped terms with a domain are unknowns of their own,
/// known by their slopes s = phi'(t):
///
///     minimise f_others(x) + sum_i w_i phi(t_i)  subject to  M x - t = o  and the constraints (N11)
///
/// `barrier`: what kept `start` from the end of the domain (N14). Empty where that does not lead to a
/// solution, or no term is of that sort.
[[nodiscard]] std::optional<LiftedSolution> solve_lifted(const std::vector<InstanceTerm>& terms,
                                                         const Instance& instance, const Settings& settings,
                                                         const Vector& start, double barrier);

}  // namespace altdiff::detail
