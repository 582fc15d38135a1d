#pragma once

#include <memory>
#include <optional>

#include "derivatives/linearisation.hpp"

namespace altdiff::detail {

template <Matrix M>
struct Finished {
  Point point;  ///< in scaled units
  std::shared_ptr<const Linearisation> linearisation;
  ActiveSet set{};  ///< that the linearisation is on, in scaled units
};

/// For derivatives on a finished set.
[[nodiscard]] RoundLimits derivative_limits(double gradient_tolerance);

/// Refines an engine's point to machine precision: with the rows that look active held as equalities, the KKT
/// conditions are linear, and (A2) solves them in a few rounds. Signs that come out wrong change the set, at
/// most a dozen times. Empty if no set with the right signs was found. `gradient_tolerance` is for later
/// derivatives. `system` is any of the program's: its pattern is known, its factor is lost.
template <Matrix M>
[[nodiscard]] std::optional<Finished<M>> finish(const std::shared_ptr<const ScaledProgram<M>>& program,
                                                const Point& start, double gradient_tolerance,
                                                AugmentedSystem<M>& system);

/// For a point that no finish improves: derivatives on the rows that look active.
template <Matrix M>
[[nodiscard]] std::shared_ptr<const Linearisation> linearise(
    const std::shared_ptr<const ScaledProgram<M>>& program, const Point& point, double gradient_tolerance,
    AugmentedSystem<M>& system);

extern template std::optional<Finished<DenseMatrix>> finish(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Point&, double,
    AugmentedSystem<DenseMatrix>&);
extern template std::optional<Finished<SparseMatrix>> finish(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);
extern template std::shared_ptr<const Linearisation> linearise(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Point&, double,
    AugmentedSystem<DenseMatrix>&);
extern template std::shared_ptr<const Linearisation> linearise(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);

}  // namespace altdiff::detail
