#pragma once

#include <altdiff/matrix.hpp>
#include <optional>
#include <vector>

namespace altdiff::detail {

/// The shortest lambda with C lambda = -g, where lambda_i >= 0 unless i is `free`; C has one column a row of
/// constraints (W3). C lambda + g may be as large as `balanced`. Empty if there is none, or the search does
/// not end.
[[nodiscard]] std::optional<Vector> least_nonnegative(const DenseMatrix& C, const Vector& g,
                                                      const std::vector<bool>& free, double balanced);

}  // namespace altdiff::detail
