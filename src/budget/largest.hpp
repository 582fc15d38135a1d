#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff::detail {

struct RowTop {
  double largest = 0;  ///< NaN if an entry is NaN or +inf
  Index masked = 0;    ///< how many entries are -inf
};

template <class T>
[[nodiscard]] RowTop row_top(const T* y, Index n, int threads);

}  // namespace altdiff::detail
