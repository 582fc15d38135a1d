#pragma once

#include <altdiff/problem.hpp>
#include <vector>

#include "problem/solve_well_posed.hpp"

namespace altdiff::detail {

// Proofs that a program has no solution, as solutions of programs that always have one. Nothing here is
// trusted: the caller tests what it gets (problem/certificates). Programs should come scaled.

/// Whether a point is the proof that is looked for.
using Proves = std::function<bool(const Point&)>;

/// Phase 1: min 1/2 |e|^2 subject to A x + e_A = b, G x - e_G <= h, and the bounds as they are. Where no x
/// satisfies the constraints, its multipliers y = -e_A and z = e_G are a Farkas vector. (C4)
/// Where it is none, the x that is closest to satisfying them.
struct PhaseOne {
  bool proved = false;
  Vector nearest{};  ///< empty if there was none
};
[[nodiscard]] PhaseOne find_primal_proof(const QuadraticProgram<SparseMatrix>& qp,
                                         const SolveWellPosed& solve, const Proves& proves);

/// The projection of -q on the directions in which the feasible set and the objective are unbounded:
/// min 1/2 |d + q|^2 subject to P d = 0, A d = 0, G d <= 0, and d_j not towards a bound. (C5)
[[nodiscard]] bool find_dual_proof(const QuadraticProgram<SparseMatrix>& qp, const SolveWellPosed& solve,
                                   const Proves& proves);

}  // namespace altdiff::detail
