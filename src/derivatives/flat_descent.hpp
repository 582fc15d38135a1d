#pragma once

#include "derivatives/null_space.hpp"

namespace altdiff::detail {

/// Steps along flat directions of S in which the objective still falls, however little, until a row blocks
/// and joins S: an engine that has separated slacks from multipliers to ten digits has not met costs that are
/// ten digits smaller than others. `v` and S stay as they are if the steps do not end at a point with the
/// right signs. Returns the factors on S.
std::shared_ptr<const NullSpace> descend_flat_directions(const QuadraticProgram<SparseMatrix>& qp,
                                                         const RowLengths& lengths, Point& v, ActiveSet& S);

}  // namespace altdiff::detail
