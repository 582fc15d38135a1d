#pragma once

#include <altdiff/matrix.hpp>
#include <array>
#include <cstdint>
#include <cstring>
#include <numbers>

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

/// What the exponential knows about a type of numbers.
template <class T>
struct ExpNumbers;

template <>
struct ExpNumbers<float> {
  using Integer = std::int32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr float rounder = 0x1.8p23F;  // added and taken off: rounds to an integer
  static constexpr float log2_e = std::numbers::log2e_v<float>;
  static constexpr float ln2_high = 45426.0F / 65536.0F;  // few digits: k times it is exact
  static constexpr float ln2_low = 1.42860682e-6F;
  static constexpr float lowest = -87.0F;  // below, the result would lose digits; it is 0
  static constexpr std::size_t degree = 7;
};

template <>
struct ExpNumbers<double> {
  using Integer = std::int64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr double rounder = 0x1.8p52;
  static constexpr double log2_e = std::numbers::log2e;
  static constexpr double ln2_high = static_cast<double>(0x162e42feeLL) / 0x1p33;
  static constexpr double ln2_low = 1.90821492927058770002e-10;
  static constexpr double lowest = -708.0;
  static constexpr std::size_t degree = 13;
};

/// 1 / k! for k = 0 .. degree: the error of the series within ln(2) / 2 of zero is below rounding.
template <class T>
constexpr auto exp_series = [] {
  std::array<T, ExpNumbers<T>::degree + 1> series{};
  double factorial = 1;
  for (std::size_t k = 0; k < series.size(); ++k) {
    if (k > 0) factorial *= static_cast<double>(k);
    series[k] = static_cast<T>(1 / factorial);
  }
  return series;
}();

/// exp(v) for v <= 80, in a whole register at once: std::exp, entry by entry, takes ten times as long.
template <class T>
Pack<T> exp_pack(Pack<T> v) {
  using N = ExpNumbers<T>;
  using Integers [[gnu::vector_size(32)]] = typename N::Integer;
  const Pack<T> lowest = Pack<T>{} + N::lowest;
  const auto vanishes = v < lowest;
  const Pack<T> w = vanishes ? lowest : v;
  const Pack<T> shifted = w * N::log2_e + N::rounder;
  const Pack<T> k = shifted - N::rounder;
  const Pack<T> r = (w - k * N::ln2_high) - k * N::ln2_low;
  Pack<T> result = Pack<T>{} + exp_series<T>[N::degree];
  for (std::size_t j = N::degree; j-- > 0;) result = result * r + exp_series<T>[j];
  // The low bits of `shifted` are k; moved to the exponent they multiply by 2^k.
  Integers bits;
  Integers exponent;
  std::memcpy(&bits, &result, sizeof(bits));
  std::memcpy(&exponent, &shifted, sizeof(exponent));
  bits += exponent << N::mantissa_bits;
  std::memcpy(&result, &bits, sizeof(result));
  return vanishes ? Pack<T>{} : result;
}

}  // namespace altdiff::detail
