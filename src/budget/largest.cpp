#include "budget/largest.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "budget/exp.hpp"
#include "budget/sweep.hpp"

namespace altdiff::detail {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
double largest_of_piece(const T* y, Index n) {
  constexpr Index size = pack_size<T>;
  constexpr T top = std::numeric_limits<T>::infinity();
  Pack<T> even = Pack<T>{} - top;
  Pack<T> odd = even;
  auto good = even < Pack<T>{} + top;  // a maximum would pass over NaN
  Index i = 0;
  for (; i + 2 * size <= n; i += 2 * size) {
    const Pack<T> a = load_pack(y + i);
    const Pack<T> b = load_pack(y + i + size);
    even = a > even ? a : even;
    odd = b > odd ? b : odd;
    good &= (a < Pack<T>{} + top) & (b < Pack<T>{} + top);
  }
  T largest = -top;
  bool valid = true;
  for (Index k = 0; k < size; ++k) {
    largest = std::max({largest, even[k], odd[k]});
    valid = valid && good[k] != 0;
  }
  for (; i < n; ++i) {
    valid = valid && y[i] < top;
    largest = std::max(largest, y[i]);
  }
  return valid ? static_cast<double>(largest) : nan;
}

}  // namespace

template <class T>
double largest_valid(const T* y, Index n, int threads) {
  std::array<double, most_pieces> parts{};
  for_pieces(n, threads, [&](Index begin, Index end, Index piece) {
    parts[static_cast<std::size_t>(piece)] = largest_of_piece(y + begin, end - begin);
  });
  double largest = -std::numeric_limits<double>::infinity();
  for (Index piece = 0; piece < Pieces(n).count; ++piece) {
    const double part = parts[static_cast<std::size_t>(piece)];
    if (std::isnan(part)) return nan;
    largest = std::max(largest, part);
  }
  return largest;
}

template double largest_valid(const float*, Index, int);
template double largest_valid(const double*, Index, int);

}  // namespace altdiff::detail
