#pragma once

#include <altdiff/problem.hpp>
#include <functional>
#include <vector>

namespace altdiff::detail {

// Proofs that a program has no solution, as solutions of programs that always have one. Nothing here is
// trusted: the caller tests what it gets (problem/certificates). Programs should come scaled.

/// Solves a program that has a solution, in one way or more.
using SolveWellPosed = std::function<std::vector<Point>(const QuadraticProgram<SparseMatrix>&)>;

/// Phase 1: min 1/2 |e|^2 subject to A x + e_A = b, G x - e_G <= h, and the bounds as they are. Where no x
/// satisfies the constraints, its multipliers y = -e_A and z = e_G are a Farkas vector.                 (C4)
[[nodiscard]] std::vector<Point> find_primal_proof(const QuadraticProgram<SparseMatrix>& qp,
                                                   const SolveWellPosed& solve);

/// The projection of -q on the directions in which the feasible set and the objective are unbounded:
/// min 1/2 |d + q|^2 subject to P d = 0, A d = 0, G d <= 0, and d_j not towards a bound.              (C5)
[[nodiscard]] std::vector<Point> find_dual_proof(const QuadraticProgram<SparseMatrix>& qp,
                                                 const SolveWellPosed& solve);

}  // namespace altdiff::detail
