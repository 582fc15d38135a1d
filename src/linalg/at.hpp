#pragma once

#include <altdiff/matrix.hpp>
#include <cstddef>

namespace altdiff::detail {

/// The standard library counts without a sign, and Eigen with one.
[[nodiscard]] constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace altdiff::detail
