#pragma once

#include <altdiff/problem.hpp>
#include <functional>

#include "derivatives/active_set.hpp"
#include "linalg/augmented_system.hpp"

namespace altdiff::detail {

struct RoundLimits {
  double tolerance = 0;  ///< of the relative residual (R4); one round more is made once it is met
  int max_rounds = 0;
  int patience = 0;  ///< rounds without progress before giving up
};

struct RoundReport {
  int rounds = 0;
  int enough = 0;       ///< rounds after which more of them did not even halve the residual
  double residual = 0;  ///< (R4) of the best round
};

/// Solves the KKT system on an active set S,
///
///     [P  A'  G_S' I_S'] [x]       [r_x  ]
///     [A               ] [y] = - [r_y  ]                                                              (A2)
///     [G_S             ] [z]       [r_z,S]
///     [I_S             ] [box]     [r_box,S]
///
/// where rows that give way, if there are any, have -1/w on the diagonal (W1),
/// by alternating rounds from `t`, one column a right-hand side, with a factor that somebody owns already.
/// Whatever penalties the factor has, the fixed point is the same; large ones on S and none elsewhere need 2
/// to 5 rounds, the penalties of ADMM are the paper's recursion. The finish, the adjoint and the tangent are
/// this function.
template <Matrix M>
RoundReport alternating_rounds(const QuadraticProgram<M>& qp, const AugmentedSystem<M>& system,
                               const ActiveSet& S, const PointBlock& right_side, PointBlock& t,
                               const RoundLimits& limits);

/// How many rounds a linear map is made of. With a fixed number, whatever the right-hand side, t is linear in
/// it; and since the matrices of (A2) and (K2) are symmetric, so is the map, so that vjp is the adjoint of
/// jvp.
struct RoundCount {
  int rounds = 0;
  /// More rounds, for the rows of A and G alone. At a vertex x_bar has next to no effect on x, and rounding
  /// in its balance with the multipliers would be all there is of u.
  int on_rows = 0;
};

/// So many rounds from t = 0; returns what is left of the right-hand side. `another` is asked after every
/// round, with what is left then; empty: yes. (A3)
using AfterRound = std::function<bool(const PointBlock& left)>;
template <Matrix M>
PointBlock fixed_rounds(const QuadraticProgram<M>& qp, const AugmentedSystem<M>& system, const ActiveSet& S,
                        const PointBlock& right_side, PointBlock& t, const RoundCount& count,
                        const AfterRound& another = {});

/// The right-hand side of (A2) whose solution is `t`; of t only what belongs to S counts.
template <Matrix M>
[[nodiscard]] PointBlock right_side_of(const QuadraticProgram<M>& qp, const ActiveSet& S, PointBlock t);

extern template PointBlock fixed_rounds(const QuadraticProgram<DenseMatrix>&,
                                        const AugmentedSystem<DenseMatrix>&, const ActiveSet&,
                                        const PointBlock&, PointBlock&, const RoundCount&, const AfterRound&);
extern template PointBlock fixed_rounds(const QuadraticProgram<SparseMatrix>&,
                                        const AugmentedSystem<SparseMatrix>&, const ActiveSet&,
                                        const PointBlock&, PointBlock&, const RoundCount&, const AfterRound&);
extern template PointBlock right_side_of(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, PointBlock);
extern template PointBlock right_side_of(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, PointBlock);
extern template RoundReport alternating_rounds(const QuadraticProgram<DenseMatrix>&,
                                               const AugmentedSystem<DenseMatrix>&, const ActiveSet&,
                                               const PointBlock&, PointBlock&, const RoundLimits&);
extern template RoundReport alternating_rounds(const QuadraticProgram<SparseMatrix>&,
                                               const AugmentedSystem<SparseMatrix>&, const ActiveSet&,
                                               const PointBlock&, PointBlock&, const RoundLimits&);

}  // namespace altdiff::detail
