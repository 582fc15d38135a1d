#pragma once

#include "derivatives/rounds.hpp"

namespace altdiff::detail {

/// Penalties that make rounds on S contract fast; a row that gives way has its weight, so that (K2) meets it
/// at once.
template <Matrix M>
[[nodiscard]] Penalties penalties_on(const ActiveSet& S, Index p, double sigma);

/// What a round's factor has on its diagonal.
struct RoundWeights {
  double sigma = 0;   ///< proximal term
  double row = 0;     ///< penalty of a strict row
  bool hold = false;  ///< strict bounds hold their variables, instead of having a penalty
};
template <Matrix M>
[[nodiscard]] Penalties penalties_on(const ActiveSet& S, Index p, const RoundWeights& weights);

/// KKT conditions of (QP) with S as equalities, as a right-hand side of (A2).
template <Matrix M>
[[nodiscard]] PointBlock data_of(const QuadraticProgram<M>& qp, const ActiveSet& S);

/// Solves (A2) on S from `t`, with the first sigma that brings (R4) below `good_enough`, else the one that
/// came closest; that one's factor is left in `system`. False if none could be factorised.
template <Matrix M>
[[nodiscard]] bool solve_on(const QuadraticProgram<M>& qp, const ActiveSet& S, const PointBlock& right_side,
                            double good_enough, AugmentedSystem<M>& system, PointBlock& t);

/// Factorises with the penalties with which five rounds solve (A2) best. Judged by a right-hand side that has
/// a solution, for where x is not unique the best residual of another is an accident; and by one that needs
/// multipliers, for it is those that nearly dependent rows make slow.
template <Matrix M>
[[nodiscard]] bool factorise_on(const QuadraticProgram<M>& qp, const ActiveSet& S,
                                AugmentedSystem<M>& system);

/// A right-hand side of (A2) that has a solution, in which every row and variable takes part.
template <Matrix M>
[[nodiscard]] PointBlock solvable_right_side(const QuadraticProgram<M>& qp, const ActiveSet& S);

/// Limits of the rows of A and S that do not give way, without structure.
template <Matrix M>
[[nodiscard]] PointBlock generic_limits(const QuadraticProgram<M>& qp, const ActiveSet& S);

/// Whether the rows of S and A that do not give way are linearly independent: then (A2) has a solution for
/// generic limits (A5). `system` is factorised for S.
template <Matrix M>
[[nodiscard]] bool independent_rows(const QuadraticProgram<M>& qp, const ActiveSet& S,
                                    const AugmentedSystem<M>& system, const RoundLimits& limits);

enum class Rows { Independent, NearlyDependent, Dependent };

/// The same, asked again with larger penalties where rounds are slow or lead nowhere: along rows that are
/// nearly dependent both look alike. Then `system` gets a factor with which they are not.
template <Matrix M>
[[nodiscard]] Rows rows_with_any(const QuadraticProgram<M>& qp, const ActiveSet& S, const RoundLimits& limits,
                                 AugmentedSystem<M>& system);

/// Whether (A2) has a solution for a generic gradient, so that x is unique (A4).
template <Matrix M>
[[nodiscard]] bool unique_x(const QuadraticProgram<M>& qp, const ActiveSet& S,
                            const AugmentedSystem<M>& system, const RoundLimits& limits);

/// Where (A2) is clearly regular: how many rounds solve it to rounding, whatever the right-hand side. One
/// look at a gradient and limits that are all generic says what (A4) and (A5) ask, and how many rounds
/// derivatives need; zero: it has to be found out one by one.
template <Matrix M>
[[nodiscard]] int rounds_if_regular(const QuadraticProgram<M>& qp, const ActiveSet& S,
                                    const AugmentedSystem<M>& system, const RoundLimits& limits);

/// Numbers of order one without structure, the same everywhere.
[[nodiscard]] DenseMatrix generic_block(Index rows, Index columns);

/// A right-hand side or an unknown of (A2), all zero.
template <Matrix M>
[[nodiscard]] PointBlock zeros(const QuadraticProgram<M>& qp, Index columns) {
  return {.x = DenseMatrix::Zero(qp.n(), columns),
          .y = DenseMatrix::Zero(qp.p(), columns),
          .z = DenseMatrix::Zero(qp.m(), columns),
          .z_box = DenseMatrix::Zero(qp.n(), columns)};
}

}  // namespace altdiff::detail
