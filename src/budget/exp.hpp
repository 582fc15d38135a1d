#pragma once

#include <altdiff/matrix.hpp>
#include <array>
#include <cstdint>
#include <cstring>
#include <numbers>

#include "budget/pack.hpp"

namespace altdiff::detail {

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
  static constexpr std::size_t degree = 6;
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
  static constexpr std::size_t degree = 11;
};

/// The exponential within h = ln(2) / 2 of zero as a polynomial: its series, of which the terms beyond the
/// degree are not cut off but spread over the others. Taking a multiple of the Chebyshev polynomial T_d(x /
/// h) off makes a term of degree d vanish for an error that is 2^(d-1) times smaller than the term.
template <class T>
constexpr auto exp_polynomial = [] {
  constexpr std::size_t last = 17;
  constexpr double h = std::numbers::ln2 / 2;
  std::array<double, last + 1> terms{};  // of x / h
  double term = 1;
  for (std::size_t k = 0; k <= last; ++k) {
    terms[k] = term;
    term *= h / static_cast<double>(k + 1);
  }
  std::array<std::array<double, last + 1>, last + 1> chebyshev{};
  chebyshev[0][0] = chebyshev[1][1] = 1;
  for (std::size_t d = 2; d <= last; ++d)
    for (std::size_t k = 0; k <= d; ++k)
      chebyshev[d][k] = (k > 0 ? 2 * chebyshev[d - 1][k - 1] : 0) - chebyshev[d - 2][k];
  for (std::size_t d = last; d > ExpNumbers<T>::degree; --d) {
    const double multiple = terms[d] / chebyshev[d][d];
    for (std::size_t k = 0; k <= d; ++k) terms[k] -= multiple * chebyshev[d][k];
  }
  std::array<T, ExpNumbers<T>::degree + 1> result{};
  double power = 1;
  for (std::size_t k = 0; k < result.size(); ++k, power *= h) result[k] = static_cast<T>(terms[k] / power);
  return result;
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
  Pack<T> result = Pack<T>{} + exp_polynomial<T>[N::degree];
  for (std::size_t j = N::degree; j-- > 0;) result = result * r + exp_polynomial<T>[j];
  // The low bits of `shifted` are k; moved to the exponent they multiply by 2^k.
  Integers bits;
  Integers exponent;
  std::memcpy(&bits, &result, sizeof(bits));
  std::memcpy(&exponent, &shifted, sizeof(exponent));
  bits += exponent << N::mantissa_bits;
  std::memcpy(&result, &bits, sizeof(result));
  return cleared(result, vanishes);
}

}  // namespace altdiff::detail
