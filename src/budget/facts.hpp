#pragma once

#include <cmath>

#include "budget/largest.hpp"
#include "budget/row.hpp"

namespace altdiff::detail {

/// What has to be known of a row before it is solved.
struct Facts {
  bool valid = true;
  double lower = 0, upper = 0;  ///< sums of the limits; that of a masked entry is its lower one
  double size = 0;              ///< of the numbers that add up to the total, for what rounding makes of it
  double mean = 0;              ///< of entries that are not masked, or about so
  double largest = 0;
};

/// Sums of which limits of each entry's own need all.
struct LimitSums {
  Lanes bad{}, lower{}, upper{}, size{};                                        // size: of the finite limits
  Lanes e{}, count{}, largest = all(-std::numeric_limits<double>::infinity());  // e, count: not masked

  void add(const LimitSums& other) {
    bad += other.bad;
    lower += other.lower;
    upper += other.upper;
    size += other.size;
    e += other.e;
    count += other.count;
    largest = larger(largest, other.largest);
  }
};

template <class T>
double least_limit(const RowOf<T>& row) {
  return row.kind == Budget::Softmax ? 0 : -std::numeric_limits<double>::infinity();
}

template <class T, class Lower, class Upper>
Facts facts_of(const RowOf<T>& row, const Lower& lower, const Upper& upper) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double least = least_limit(row);
  const auto body = [=, y_row = row.y](Index i, auto some, LimitSums& f) {
    const Lanes y = load(y_row + i, some, -infinity);
    const Lanes l = lower.at(i, some);
    const Lanes u = upper.at(i, some);
    const LaneMask here = present(some);
    const auto masked = y == all(-infinity);
    const Lanes reach = y - l;  // NaN if both are -inf
    const auto good = (y < all(infinity)) & (u >= l) & (u > all(-infinity)) & (l < all(infinity)) &
                      (l >= all(least)) & (reach == reach);
    f.bad += where(here & ~good, all(1), Lanes{});
    f.lower += here ? l : Lanes{};
    f.upper += where(here, where(masked, l, u), Lanes{});
    f.size += (here & (l > all(-infinity))) ? magnitude(l) : Lanes{};
    f.size += (here & (u < all(infinity))) ? magnitude(u) : Lanes{};
    f.e += masked ? Lanes{} : y;
    f.count += masked ? Lanes{} : all(1);
    f.largest = larger(f.largest, y);
  };
  const auto sums = sweep_row<LimitSums>(row.n, row.threads, body);
  const Lanes& top = sums.largest;
  return {.valid = !(sum(sums.bad) > 0),
          .lower = sum(sums.lower),
          .upper = sum(sums.upper),
          .size = std::abs(row.total) + sum(sums.size),
          .mean = sum(sums.e) / sum(sums.count),
          .largest = std::max({top[0], top[1], top[2], top[3]})};
}

/// The mean of a few entries that are not masked.
template <class T>
double mean_of_few(const T* y, Index n) {
  constexpr Index few = 64;
  double sum = 0;
  double count = 0;
  for (Index i = 0; i < n; i += n / few + 1) {
    const bool masked = y[i] == -std::numeric_limits<T>::infinity();
    sum += masked ? 0 : static_cast<double>(y[i]);
    count += masked ? 0 : 1;
  }
  return sum / count;
}

/// Limits that are numbers need no sums.
template <class T>
Facts facts_of(const RowOf<T>& row, const SameLimit& lower, const SameLimit& upper) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double l = lower.value;
  const double u = upper.value;
  const RowTop top = row_top(row.y, row.n, row.threads);
  const auto times = [](Index count, double limit) {
    return count == 0 ? 0 : static_cast<double>(count) * limit;
  };
  const auto finite = [](double limit) { return std::isfinite(limit) ? std::abs(limit) : 0; };
  const bool good = u >= l && u > -infinity && l < infinity && l >= least_limit(row);
  return {.valid = good && !std::isnan(top.largest) && (top.masked == 0 || l > -infinity),
          .lower = times(row.n, l),
          .upper = times(top.masked, l) + times(row.n - top.masked, u),
          .size = std::abs(row.total) + static_cast<double>(row.n) * (finite(l) + finite(u)),
          .mean = mean_of_few(row.y, row.n),
          .largest = top.largest};
}

template <class T>
Facts facts_of(const RowOf<T>& row) {
  return with_limits(row, [&](const auto& lower, const auto& upper) { return facts_of(row, lower, upper); });
}

}  // namespace altdiff::detail
