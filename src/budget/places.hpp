#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "budget/exp.hpp"
#include "budget/sweep.hpp"

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

/// The sum of a pack's numbers, added to four sums in double.
template <class T>
void add_pack(const Pack<T>& pack, Lanes& sums) {
  std::array<T, static_cast<std::size_t>(pack_size<T>)> numbers{};
  std::memcpy(numbers.data(), &pack, sizeof(pack));
  for (Index k = 0; k < pack_size<T>; k += lanes) sums += load(numbers.data() + k, Full{});
}

/// Entries up to `low` are at the lower limit, of the others those from `high` at the upper one.
template <class T>
Places count_places(const T* e, Index n, T low, T high) {
  constexpr Index size = pack_size<T>;
  auto low_count = Pack<T>{} < Pack<T>{};
  auto high_count = low_count;
  Lanes sums{};
  Lanes more_sums{};
  const auto one = [&](const Pack<T>& v, Lanes& into) {
    const auto is_low = v <= Pack<T>{} + low;
    const auto is_high = (v >= Pack<T>{} + high) & ~is_low;
    low_count -= is_low;  // a mask is -1
    high_count -= is_high;
    add_pack<T>(is_low | is_high ? Pack<T>{} : v, into);
  };
  Index i = 0;
  for (; i + 2 * size <= n; i += 2 * size) {
    one(load_pack(e + i), sums);
    one(load_pack(e + i + size), more_sums);
  }
  if (i + size <= n) {
    one(load_pack(e + i), sums);
    i += size;
  }
  Places result{.e = sum(sums + more_sums)};
  for (Index k = 0; k < size; ++k) {
    result.low += static_cast<double>(low_count[k]);
    result.high += static_cast<double>(high_count[k]);
  }
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
template <class T>
Places count_places(const T* e, Index n, T low, T high, int threads) {
  if (Pieces(n).count <= 1) return count_places(e, n, low, high);
  std::array<Places, most_pieces> parts;
  for_pieces(n, threads, [&](Index begin, Index end, Index piece) {
    parts[static_cast<std::size_t>(piece)] = count_places(e + begin, end - begin, low, high);
  });
  Places result;
  for (Index piece = 0; piece < Pieces(n).count; ++piece) result.add(parts[static_cast<std::size_t>(piece)]);
  return result;
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

/// Copies the entries that are open, which may be to where they are.
template <class T>
TakenOut take_out(const T* e, Index n, const Edges<T>& edges, double* open) {
  constexpr Index size = pack_size<T>;
  const Edges<T> at = edges;
  auto low_count = Pack<T>{} < Pack<T>{};
  auto high_count = low_count;
  auto free_count = low_count;
  Lanes sums{};
  TakenOut result;
  Index low_open = 0;
  Index high_open = 0;
  const auto one = [&](const T* source, unsigned present) {
    const Pack<T> v = load_pack(source);
    const auto low = v <= Pack<T>{} + at.low;
    const auto high = (v >= Pack<T>{} + at.high) & ~low;
    const auto free = (v > Pack<T>{} + at.free_from) & (v < Pack<T>{} + at.free_to) & ~(low | high);
    low_count -= low;  // a mask is -1
    high_count -= high;
    free_count -= free;
    add_pack<T>(free ? v : Pack<T>{}, sums);
    for (unsigned left = lane_bits<T>(~(low | high | free)) & present; left != 0; left &= left - 1) {
      const T value = source[std::countr_zero(left)];
      open[result.open++] = static_cast<double>(value);
      low_open += value <= at.free_from ? 1 : 0;
      high_open += value >= at.free_to ? 1 : 0;
    }
  };
  constexpr unsigned every = (1U << static_cast<unsigned>(size)) - 1;
  Index i = 0;
  for (; i + size <= n; i += size) one(e + i, every);
  const Index absent = i < n ? size - (n - i) : 0;
  if (absent > 0) {
    std::array<T, static_cast<std::size_t>(size)> rest{};
    rest.fill(-std::numeric_limits<T>::infinity());  // low, and not counted
    std::copy(e + i, e + n, rest.begin());
    one(rest.data(), every >> static_cast<unsigned>(absent));
  }
  for (Index k = 0; k < size; ++k) {
    result.places.low += static_cast<double>(low_count[k]);
    result.places.high += static_cast<double>(high_count[k]);
    result.count += static_cast<double>(free_count[k]);
  }
  if (-std::numeric_limits<T>::infinity() <= at.low) result.places.low -= static_cast<double>(absent);
  result.places.e = sum(sums);
  result.low_open = static_cast<double>(low_open);
  result.high_open = static_cast<double>(high_open);
  return result;
}

}  // namespace altdiff::detail
