#include "solve_near_by.hpp"

#include <cmath>
#include <limits>

#include "problem/far_limits.hpp"

namespace altdiff::detail {

namespace {
constexpr int most_moves = 20;  // of the origin
}

std::optional<Solution<SparseMatrix>> solve_near_by(const QuadraticProgram<SparseMatrix>& user,
                                                    const SolveOnce& solve,
                                                    const std::function<bool(const Point&)>& falls) {
  NearbyProgram nearby(user);
  if (!nearby.leaves_out()) return {};
  for (int move = 0; move < most_moves; ++move) {
    auto found = solve(nearby.program());
    const bool ray = found.status == Status::DualInfeasible;
    if (found.status == Status::PrimalInfeasible || (ray && falls(found))) return found;
    if (!ray && found.status != Status::Solved) return {};
    const double room = nearby.room(found.x, ray ? std::numeric_limits<double>::infinity() : 1.0);
    if (!ray && room == 1) {
      found.x = nearby.from_origin(found.x);
      return found;
    }
    if (!std::isfinite(room)) return {};
    nearby.move_origin(room * found.x);
  }
  return {};
}

}  // namespace altdiff::detail
