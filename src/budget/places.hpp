#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "budget/pack.hpp"

namespace altdiff::detail {

// Where limits are numbers, entries alone tell their places: comparisons need no arithmetic and run in
// whole registers of the row's own type.

template <class T>
T rounded_down(double value) {
  const T near = static_cast<T>(value);
  return static_cast<double>(near) > value ? std::nextafter(near, -std::numeric_limits<T>::infinity()) : near;
}
template <class T>
T rounded_up(double value) {
  return -rounded_down<T>(-value);
}

template <class T>
T next_above(T value) {
  return std::nextafter(value, std::numeric_limits<T>::infinity());
}

/// The largest entry that p leaves at the lower limit, and the smallest that it holds at the upper one.
/// Beside a huge p a limit has no digits, so the values decide.
template <class T, class Curve>
T low_edge(double l, double p, Curve /*curve*/) {
  const double edge = Curve::entry(l, p);
  const bool too_large = Curve::sum(edge, 1, p) > l;
  return rounded_down<T>(too_large ? std::nextafter(edge, -std::numeric_limits<double>::infinity()) : edge);
}
template <class T, class Curve>
T high_edge(double u, double p, Curve /*curve*/) {
  const double edge = Curve::entry(u, p);
  const bool too_small = Curve::sum(edge, 1, p) < u;
  return rounded_up<T>(too_small ? std::nextafter(edge, std::numeric_limits<double>::infinity()) : edge);
}

/// Entries at the lower limit, at the upper one, and the sum of the others.
struct Places {
  double low = 0, high = 0, e = 0;

  /// What those at the limits add up to; a limit that holds none may be infinite.
  [[nodiscard]] double fixed(double l, double u) const {
    return (low > 0 ? low * l : 0) + (high > 0 ? high * u : 0);
  }
  void add(const Places& other) {
    low += other.low;
    high += other.high;
    e += other.e;
  }
};

/// Entries up to `low` are at the lower limit, of the others those from `high` at the upper one. `positive`:
/// no entry is below zero.
template <bool positive, class T>
Places count_places(const T* e, Index n, T low, T high) {
  constexpr Index size = pack_size<T>;
  const T high_beyond = std::max(high, next_above(low));
  PackCount<T> lows;
  PackCount<T> highs;
  PackSum<T> sums;
  const auto free_part = [&](const Pack<T>& v) {
    const auto is_low = v <= Pack<T>{} + low;
    const auto is_high = v >= Pack<T>{} + high_beyond;
    lows.add(is_low);
    highs.add(is_high);
    return cleared(v, either(is_low, is_high));
  };
  Index i = 0;
  for (; i + 2 * size <= n; i += 2 * size)
    sums.template add<positive>(free_part(load_pack(e + i)), free_part(load_pack(e + i + size)));
  if (i + size <= n) {
    sums.add(free_part(load_pack(e + i)));
    i += size;
  }
  Places result{.low = lows.total(), .high = highs.total(), .e = sums.total()};
  for (; i < n; ++i) {
    const bool is_low = e[i] <= low;
    const bool is_high = !is_low && e[i] >= high;
    result.low += is_low ? 1 : 0;
    result.high += is_high ? 1 : 0;
    result.e += is_low || is_high ? 0 : static_cast<double>(e[i]);
  }
  return result;
}

/// The same over a whole row.
template <bool positive, class T>
Places count_places(const T* e, Index n, T low, T high, int threads) {
  return over_pieces<Places>(n, threads, [&](Index begin, Index end) {
    return count_places<positive>(e + begin, end - begin, low, high);
  });
}

/// What a bracket decides: entries up to `low` are at the lower limit, from `high` at the upper one, and
/// between `free_from` and `free_to` free.
template <class T>
struct Edges {
  T low, free_from, free_to, high;
};

template <class Curve, class T>
Edges<T> edges_of(double a, double b, double l, double u) {
  return {.low = low_edge<T>(l, b, Curve{}),
          .free_from = low_edge<T>(l, a, Curve{}),
          .free_to = high_edge<T>(u, b, Curve{}),
          .high = high_edge<T>(u, a, Curve{})};
}

/// What is taken out, and how many entries are left.
struct TakenOut {
  Places places;  // e: of free entries
  double count = 0;
  double low_open = 0, high_open = 0;  // of the open ones, those at a limit at an end of the bracket
  Index open = 0;
};

/// Tells of packs of entries which are at a limit all over the bracket, and which at one of its ends. Four
/// comparisons do; counts of what they say are all that is needed of the rest.
template <class T>
class Sieve {
 public:
  struct Choice {
    Pack<T> free;  // zero where an entry is not
    unsigned open_bits;
  };

  explicit Sieve(const Edges<T>& edges)
      : low_(edges.low),
        high_(std::max(edges.high, next_above(low_))),
        low_somewhere_(std::min(std::max(edges.free_from, low_), -next_above(-high_))),
        high_somewhere_(std::max(std::min(edges.free_to, high_), next_above(low_))) {}

  Choice choose(const Pack<T>& v) {
    const auto low = v <= Pack<T>{} + low_;
    const auto high = v >= Pack<T>{} + high_;
    const auto once_low = v <= Pack<T>{} + low_somewhere_;
    const auto once_high = v >= Pack<T>{} + high_somewhere_;
    const auto moves = either(once_low, once_high);
    lows_.add(low);
    highs_.add(high);
    lows_somewhere_.add(once_low);
    highs_somewhere_.add(once_high);
    return {cleared(v, moves), lane_bits<T>(cleared(moves, either(low, high)))};
  }

  /// Of n entries, with `absent` more that are at the lower limit.
  [[nodiscard]] TakenOut result(Index n, double absent, double free_e, Index open) const {
    const double not_free = lows_somewhere_.total() + highs_somewhere_.total() - absent;
    return {.places = {.low = lows_.total() - absent, .high = highs_.total(), .e = free_e},
            .count = low_somewhere_ < high_somewhere_ ? static_cast<double>(n) - not_free : 0,
            .low_open = lows_somewhere_.total() - lows_.total(),
            .high_open = highs_somewhere_.total() - highs_.total(),
            .open = open};
  }

 private:
  T low_, high_, low_somewhere_, high_somewhere_;
  PackCount<T> lows_, highs_, lows_somewhere_, highs_somewhere_;
};

/// Copies the entries that are open, which may be to where they are; `open` has room for a pack more than
/// there are.
template <bool positive, class T>
TakenOut take_out(const T* e, Index n, const Edges<T>& edges, double* open) {
  constexpr Index size = pack_size<T>;
  Sieve<T> sieve(edges);
  PackSum<T> sums;
  Index kept = 0;
  const auto take = [&](const T* source) {
    const Pack<T> v = load_pack(source);
    const auto choice = sieve.choose(v);
    kept += store_chosen<T>(open + kept, v, choice.open_bits);
    return choice.free;
  };
  Index i = 0;
  for (; i + 2 * size <= n; i += 2 * size) {
    const Pack<T> free = take(e + i);
    sums.template add<positive>(free, take(e + i + size));
  }
  if (i + size <= n) {
    sums.add(take(e + i));
    i += size;
  }
  if (i == n) return sieve.result(n, 0, sums.total(), kept);
  const auto rest = last_pack(e + i, e + n, -std::numeric_limits<T>::infinity());
  const auto choice = sieve.choose(load_pack(rest.data()));
  sums.add(choice.free);
  for (Index k = 0; k < n - i; ++k) {
    open[kept] = static_cast<double>(rest[static_cast<std::size_t>(k)]);
    kept += (choice.open_bits >> static_cast<unsigned>(k)) & 1U;
  }
  return sieve.result(n, static_cast<double>(size - (n - i)), sums.total(), kept);
}

}  // namespace altdiff::detail
