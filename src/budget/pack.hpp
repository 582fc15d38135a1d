#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "budget/sweep.hpp"

namespace altdiff::detail {

/// As many numbers as a vector register of x86-64-v3 holds.
template <class T>
struct PackOf {
  using type [[gnu::vector_size(32)]] = T;
};
template <class T>
using Pack = typename PackOf<T>::type;

template <class T>
constexpr Index pack_size = 32 / sizeof(T);

template <class T>
Pack<T> load_pack(const T* source) {
  Pack<T> pack;
  std::memcpy(&pack, source, sizeof(pack));
  return pack;
}

template <class T>
void store_pack(T* target, const Pack<T>& pack) {
  std::memcpy(target, &pack, sizeof(pack));
}

/// Where one comparison or the other holds, and the numbers where none does. GCC would make of the plain
/// operators a choice between two vectors, which takes three times as long.
template <class Mask>
Mask either(const Mask& a, const Mask& b) {
#ifdef __AVX__
  return std::bit_cast<Mask>(_mm256_or_ps(std::bit_cast<__m256>(a), std::bit_cast<__m256>(b)));
#else
  return a | b;
#endif
}
template <class Numbers, class Mask>
Numbers cleared(const Numbers& v, const Mask& where) {
#ifdef __AVX__
  return std::bit_cast<Numbers>(_mm256_andnot_ps(std::bit_cast<__m256>(where), std::bit_cast<__m256>(v)));
#else
  return where ? Numbers{} : v;
#endif
}

/// The last numbers of a row, and fillers.
template <class T>
std::array<T, static_cast<std::size_t>(pack_size<T>)> last_pack(const T* begin, const T* end, T filler) {
  std::array<T, static_cast<std::size_t>(pack_size<T>)> rest{};
  rest.fill(filler);
  std::copy(begin, end, rest.begin());
  return rest;
}

/// For every choice of a pack's eight halves or wholes, where those that are chosen come from.
inline constexpr auto chosen_first = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (unsigned bits = 0; bits < table.size(); ++bits) {
    std::size_t count = 0;
    for (unsigned k = 0; k < 8; ++k)
      if ((bits >> k & 1U) != 0) table[bits][count++] = static_cast<std::uint8_t>(k);
  }
  return table;
}();

/// Writes the numbers of the chosen lanes one after another, and something behind them, a pack in all;
/// returns how many they are. Without a branch, which nobody could predict.
template <class T>
Index store_chosen(double* target, const Pack<T>& v, unsigned bits) {
#ifdef __AVX2__
  constexpr unsigned pairs[] = {0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f,  // NOLINT
                                0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff};
  const auto& source = chosen_first[pack_size<T> == 8 ? bits : pairs[bits]];
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(source.data()));
  const __m256i moved = _mm256_permutevar8x32_epi32(std::bit_cast<__m256i>(v), _mm256_cvtepu8_epi32(bytes));
  const auto values = std::bit_cast<std::array<T, static_cast<std::size_t>(pack_size<T>)>>(moved);
  for (Index k = 0; k < pack_size<T>; k += lanes) store(target + k, load(values.data() + k, Full{}), Full{});
  return std::popcount(bits);
#else
  Index count = 0;
  for (Index k = 0; k < pack_size<T>; ++k) {
    target[count] = static_cast<double>(v[k]);
    count += (bits >> static_cast<unsigned>(k)) & 1U;
  }
  return count;
#endif
}

/// How often a comparison held, over many packs.
template <class T>
class PackCount {
 public:
  template <class Mask>
  void add(const Mask& mask) {
    count_ -= mask;  // which is -1 where it holds
  }
  [[nodiscard]] double total() const {
    Index sum = 0;
    for (Index k = 0; k < pack_size<T>; ++k) sum += count_[k];
    return static_cast<double>(sum);
  }

 private:
  std::decay_t<decltype(Pack<T>{} < Pack<T>{})> count_{};
};

/// The sum of many packs, in double. Of floats two run side by side: one would wait for each addition.
template <class T>
class PackSum {
 public:
  void add(const Pack<T>& pack) {
    std::array<T, static_cast<std::size_t>(pack_size<T>)> numbers{};
    std::memcpy(numbers.data(), &pack, sizeof(pack));
    first_ += load(numbers.data(), Full{});
    if constexpr (pack_size<T> > lanes) second_ += load(numbers.data() + lanes, Full{});
  }
  /// Two packs. Of numbers that are not negative the sum of two has an error like that of the numbers.
  template <bool positive>
  void add(const Pack<T>& a, const Pack<T>& b) {
    if constexpr (positive) {
      add(a + b);
    } else {
      add(a);
      add(b);
    }
  }
  [[nodiscard]] double total() const { return sum(first_ + second_); }

 private:
  Lanes first_{}, second_{};
};

}  // namespace altdiff::detail
