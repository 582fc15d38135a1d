#pragma once

#include <altdiff/problem.hpp>
#include <altdiff/settings.hpp>
#include <optional>
#include <vector>

#include "derivatives/finish.hpp"

namespace altdiff::detail {

struct CarefulPoints {
  std::vector<Point> points;  ///< finished, and as the engine left it; in the units of the program
  int iterations = 0;
};

/// What the engine's objective is of order one in. The finish needs a P that is; where q is 1e6 times as
/// large, the engine does not: its first mu and its proximal terms would be as much too small.
enum class CostUnit { Curvature, Objective };

/// For programs on which the usual way gave up: sparse whatever the data, because the quasi-definite matrix
/// does not square the condition as (K1) does; scaled from unit rows (S3); and the interior point goes on to
/// the end before the finish. The caller has to check what it gets, which may be nothing if the time is over,
/// or where another unit makes no difference.
[[nodiscard]] CarefulPoints solve_carefully(const QuadraticProgram<SparseMatrix>& qp,
                                            const Settings& settings, CostUnit unit = CostUnit::Curvature);

/// The point of the proximal active set (AS7) for a sparse program that is small enough to be looked at as a
/// dense one: it tells rows apart that an interior point cannot. The caller has to check it.
[[nodiscard]] std::optional<Point> look_densely(const QuadraticProgram<SparseMatrix>& qp);

/// The finish, or nothing if the time is over before it is done.
template <Matrix M>
[[nodiscard]] std::optional<Finished<M>> finish_in_time(
    const std::shared_ptr<const ScaledProgram<M>>& program, const Point& start, double gradient_tolerance,
    AugmentedSystem<M>& system);

extern template std::optional<Finished<DenseMatrix>> finish_in_time(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Point&, double,
    AugmentedSystem<DenseMatrix>&);
extern template std::optional<Finished<SparseMatrix>> finish_in_time(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);

}  // namespace altdiff::detail
