#pragma once

#include <altdiff/solution.hpp>
#include <functional>
#include <optional>

namespace altdiff::detail {

using SolveOnce = std::function<Solution<SparseMatrix>(const QuadraticProgram<SparseMatrix>&)>;

/// Solves a normalised program without the limits that are far away, and from an origin that moves to those
/// which stop x (S5): solved, with x from the user's origin; infeasible, with a proof; or falling along a ray
/// for which `falls` was true. Empty if no limit is far away, or this leads nowhere. The caller has to check
/// what it gets.
[[nodiscard]] std::optional<Solution<SparseMatrix>> solve_near_by(
    const QuadraticProgram<SparseMatrix>& user, const SolveOnce& solve,
    const std::function<bool(const Point&)>& falls);

}  // namespace altdiff::detail
