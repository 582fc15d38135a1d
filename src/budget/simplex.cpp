#include "budget/simplex.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "budget/exp.hpp"
#include "budget/largest.hpp"
#include "budget/sweep.hpp"

namespace altdiff::detail {

namespace {

/// Copies the entries that are not below a threshold, and returns how many there are: in most rows a few.
template <class T>
Index collect(const T* y, Index n, T threshold, T* target) {
  constexpr Index size = pack_size<T>;
  Index count = 0;
  const auto add = [&](T value) {
    target[count] = value;
    count += value >= threshold ? 1 : 0;
  };
  Index i = 0;
  for (; i + size <= n; i += size) {
    if (!any(load_pack(y + i) >= Pack<T>{} + threshold)) continue;
    for (Index k = 0; k < size; ++k) add(y[i + k]);
  }
  for (; i < n; ++i) add(y[i]);
  return count;
}

/// The candidates of all pieces, one after another.
template <class T>
Index collect_row(const T* y, Index n, T threshold, T* target, int threads) {
  std::array<Index, most_pieces> counts{};
  for_pieces(n, threads, [&](Index begin, Index end, Index piece) {
    counts[static_cast<std::size_t>(piece)] = collect(y + begin, end - begin, threshold, target + begin);
  });
  Index count = counts[0];
  const Pieces pieces(n);
  for (Index piece = 1; piece < pieces.count; ++piece) {
    const T* from = target + piece * pieces.length;
    std::copy(from, from + counts[static_cast<std::size_t>(piece)], target + count);
    count += counts[static_cast<std::size_t>(piece)];
  }
  return count;
}

}  // namespace

template <class T>
SimplexLevel simplex_level(const T* y, Index n, double total, T* candidates, int threads) {
  const double base = row_top(y, n, threads).largest;
  if (std::isnan(base)) return {.valid = false};
  if (base == -std::numeric_limits<double>::infinity()) return {.masked = true};
  // The largest entry alone would exceed the total at a level below base - total.
  const T threshold = std::max(static_cast<T>(base - total), std::numeric_limits<T>::lowest());
  Index count = collect_row(y, n, threshold, candidates, threads);
  double level = -total;
  for (bool first = true;; first = false) {  // Michelot: the level of those above the last level
    Index kept = 0;
    double sum = 0;
    for (Index i = 0; i < count; ++i) {
      const T value = candidates[i];
      const double height = static_cast<double>(value) - base;
      const bool above = height >= level;
      candidates[kept] = value;
      kept += above ? 1 : 0;
      sum += above ? height : 0;
    }
    level = (sum - total) / static_cast<double>(kept);  // the largest is above every level
    if (kept == count && !first) return {.base = base, .level = level};
    count = kept;
  }
}

template SimplexLevel simplex_level(const float*, Index, double, float*, int);
template SimplexLevel simplex_level(const double*, Index, double, double*, int);

}  // namespace altdiff::detail
