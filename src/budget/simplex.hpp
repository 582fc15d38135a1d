#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff::detail {

/// tau with sum of max(y - tau, 0) = total, for a total above zero: base + level, because beside a large base
/// the level would lose its digits.
struct SimplexLevel {
  double base = 0, level = 0;
  bool valid = true;    ///< no NaN and no +inf in y
  bool masked = false;  ///< every entry is -inf: there is none
};

/// `candidates` is room for n numbers, which are spoilt.
template <class T>
[[nodiscard]] SimplexLevel simplex_level(const T* y, Index n, double total, T* candidates, int threads);

}  // namespace altdiff::detail
