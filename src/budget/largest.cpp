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
RowTop top_of_piece(const T* y, Index n) {
  constexpr Index size = pack_size<T>;
  constexpr T top = std::numeric_limits<T>::infinity();
  Pack<T> even = Pack<T>{} - top;
  Pack<T> odd = even;
  auto good = even < Pack<T>{} + top;    // a maximum would pass over NaN
  auto masked = even > Pack<T>{} + top;  // none
  Index i = 0;
  for (; i + 2 * size <= n; i += 2 * size) {
    const Pack<T> a = load_pack(y + i);
    const Pack<T> b = load_pack(y + i + size);
    even = a > even ? a : even;
    odd = b > odd ? b : odd;
    good &= (a < Pack<T>{} + top) & (b < Pack<T>{} + top);
    masked -= (a == Pack<T>{} - top) + (b == Pack<T>{} - top);  // a mask is -1
  }
  RowTop result{.largest = -static_cast<double>(top)};
  bool valid = true;
  for (Index k = 0; k < size; ++k) {
    result.largest = std::max({result.largest, static_cast<double>(even[k]), static_cast<double>(odd[k])});
    result.masked += masked[k];
    valid = valid && good[k] != 0;
  }
  for (; i < n; ++i) {
    valid = valid && y[i] < top;
    result.largest = std::max(result.largest, static_cast<double>(y[i]));
    result.masked += y[i] == -top ? 1 : 0;
  }
  if (!valid) result.largest = nan;
  return result;
}

}  // namespace

template <class T>
RowTop row_top(const T* y, Index n, int threads) {
  std::array<RowTop, most_pieces> parts{};
  for_pieces(n, threads, [&](Index begin, Index end, Index piece) {
    parts[static_cast<std::size_t>(piece)] = top_of_piece(y + begin, end - begin);
  });
  RowTop top{.largest = -std::numeric_limits<double>::infinity()};
  for (Index piece = 0; piece < Pieces(n).count; ++piece) {
    const RowTop& part = parts[static_cast<std::size_t>(piece)];
    top.largest =
        std::isnan(part.largest) || std::isnan(top.largest) ? nan : std::max(top.largest, part.largest);
    top.masked += part.masked;
  }
  return top;
}

template RowTop row_top(const float*, Index, int);
template RowTop row_top(const double*, Index, int);

}  // namespace altdiff::detail
