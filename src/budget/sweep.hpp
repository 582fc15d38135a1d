#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#ifdef __AVX__
#include <immintrin.h>
#endif

#include "linalg/lanes.hpp"
#include "linalg/parallel_for.hpp"

namespace altdiff::detail {

// Loops over the entries of a row, four at a time and in double whatever the row's type: rounding then shows
// in x alone, not in sums of a million entries.

using Full = std::integral_constant<Index, lanes>;

inline Lanes all(double value) { return Lanes{value, value, value, value}; }
inline Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }
inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
/// Of each lane one or the other.
inline Lanes where(LaneMask mask, Lanes yes, Lanes no) { return mask ? yes : no; }
inline Lanes magnitude(Lanes v) {
  constexpr std::int64_t sign = std::numeric_limits<std::int64_t>::min();
  return std::bit_cast<Lanes>(std::bit_cast<LaneMask>(v) & ~LaneMask{sign, sign, sign, sign});
}
/// Whether a comparison holds in any lane of 32 bytes.
template <class Mask>
bool any(const Mask& mask) {
#ifdef __AVX__
  const auto bits = std::bit_cast<__m256i>(mask);
  return _mm256_testz_si256(bits, bits) == 0;
#else
  const auto words = std::bit_cast<std::array<std::uint64_t, 4>>(mask);
  return (words[0] | words[1] | words[2] | words[3]) != 0;
#endif
}
/// One bit of each lane of a comparison of Ts in 32 bytes.
template <class T, class Mask>
unsigned lane_bits(const Mask& mask) {
#ifdef __AVX__
  if constexpr (std::is_same_v<T, float>)
    return static_cast<unsigned>(_mm256_movemask_ps(std::bit_cast<__m256>(mask)));
  else
    return static_cast<unsigned>(_mm256_movemask_pd(std::bit_cast<__m256d>(mask)));
#else
  using Words =
      std::conditional_t<sizeof(T) == 4, std::array<std::uint32_t, 8>, std::array<std::uint64_t, 4>>;
  const auto words = std::bit_cast<Words>(mask);
  unsigned bits = 0;
  for (unsigned k = 0; k < words.size(); ++k) bits |= (words[k] != 0 ? 1U : 0U) << k;
  return bits;
#endif
}
inline double sum(const Lanes& v) { return (v[0] + v[1]) + (v[2] + v[3]); }

template <class T>
struct QuadOf {
  using type [[gnu::vector_size(lanes * sizeof(T))]] = T;
};

/// Four numbers at `source`.
template <class T>
Lanes load(const T* source, Full /*count*/, double /*filler*/ = 0) {
#ifdef __AVX__
  if constexpr (std::is_same_v<T, float>) return Lanes(_mm256_cvtps_pd(_mm_loadu_ps(source)));
#endif
  typename QuadOf<T>::type quad;
  std::memcpy(&quad, source, sizeof(quad));
  return __builtin_convertvector(quad, Lanes);  // of floats, GCC makes two halves
}

/// The last `count` numbers of a row, and fillers.
template <class T>
Lanes load(const T* source, Index count, double filler = 0) {
  Lanes result = all(filler);
  for (Index i = 0; i < count; ++i) result[i] = static_cast<double>(source[i]);
  return result;
}

template <class T>
void store(T* target, Lanes value, Full /*count*/) {
  const auto quad = __builtin_convertvector(value, typename QuadOf<T>::type);
  std::memcpy(target, &quad, sizeof(quad));
}

template <class T>
void store(T* target, Lanes value, Index count) {
  for (Index i = 0; i < count; ++i) target[i] = static_cast<T>(value[i]);
}

/// Which lanes hold entries of the row: the first `count`.
inline LaneMask present(Full /*count*/) { return LaneMask{-1, -1, -1, -1}; }
inline LaneMask present(Index count) { return LaneMask{0, 1, 2, 3} < count; }

constexpr Index most_pieces = 64;

/// How a row is cut into pieces for several threads. It depends on the length alone, and so do sums.
struct Pieces {
  Index count, length;

  explicit Pieces(Index n) {
    constexpr Index shortest = 32768;
    length = std::max(shortest, (n + most_pieces - 1) / most_pieces);
    length = (length + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
    count = n > 0 ? (n + length - 1) / length : 0;
  }
};

/// Calls body(begin, end, piece) for every piece of a row.
template <class Body>
void for_pieces(Index n, int threads, const Body& body) {
  const Pieces pieces(n);
  if (pieces.count == 1) {
    body(Index{0}, n, Index{0});
    return;
  }
  parallel_for(pieces.count, threads, [&](Index piece) {
    body(piece * pieces.length, std::min(n, (piece + 1) * pieces.length), piece);
  });
}

/// The sums that body(i, count, sums) adds up over all entries: `count` of them begin at i. Two sums run side
/// by side, which hides the latency of additions. A body that holds copies of what it reads keeps them in
/// registers.
template <class Sums, class Body>
Sums sweep(Index begin, Index end, Body body) {
  Sums even{};
  Sums odd{};
  Index i = begin;
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    body(i, Full{}, even);
    body(i + lanes, Full{}, odd);
  }
  if (i + lanes <= end) {
    body(i, Full{}, even);
    i += lanes;
  }
  if (i < end) body(i, end - i, odd);
  even.add(odd);
  return even;
}

/// What piece(begin, end) adds up over a whole row, on several threads if it is long.
template <class Sums, class Piece>
Sums over_pieces(Index n, int threads, const Piece& piece) {
  if (Pieces(n).count <= 1) return piece(Index{0}, n);
  std::array<Sums, most_pieces> parts;
  for_pieces(n, threads, [&](Index begin, Index end, Index k) {
    parts[static_cast<std::size_t>(k)] = piece(begin, end);
  });
  Sums result{};
  for (Index k = 0; k < Pieces(n).count; ++k) result.add(parts[static_cast<std::size_t>(k)]);
  return result;
}

/// The sums of a sweep over a whole row.
template <class Sums, class Body>
Sums sweep_row(Index n, int threads, const Body& body) {
  return over_pieces<Sums>(n, threads, [&](Index begin, Index end) { return sweep<Sums>(begin, end, body); });
}

}  // namespace altdiff::detail
