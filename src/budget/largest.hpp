#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff::detail {

/// The largest entry of a row; NaN if one is NaN or +inf.
template <class T>
[[nodiscard]] double largest_valid(const T* y, Index n, int threads);

}  // namespace altdiff::detail
