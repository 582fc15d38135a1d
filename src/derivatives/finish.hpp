#pragma once

#include <memory>
#include <optional>

#include "derivatives/linearisation.hpp"

namespace altdiff::detail {

template <Matrix M>
struct Finished {
  Point point;  ///< in scaled units
  std::shared_ptr<const Linearisation<M>> linearisation;
};

/// Refines an engine's point to machine precision: with the rows that look active held as equalities, the KKT
/// conditions are linear, and (A2) solves them in a few rounds. Signs that come out wrong change the set, at
/// most a dozen times. Empty if no set with the right signs was found. `gradient_tolerance` is for later
/// derivatives.
template <Matrix M>
[[nodiscard]] std::optional<Finished<M>> finish(const std::shared_ptr<const ScaledProgram<M>>& program,
                                                const Point& start, double gradient_tolerance);

extern template std::optional<Finished<DenseMatrix>> finish(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Point&, double);
extern template std::optional<Finished<SparseMatrix>> finish(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double);

}  // namespace altdiff::detail
