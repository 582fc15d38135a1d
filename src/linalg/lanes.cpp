#include "linalg/lanes.hpp"

#include <algorithm>
#include <cmath>

namespace altdiff::detail {

namespace {
constexpr Index rows_at_once = 4;  // independent sums, which hide the latency of each addition
}

LaneCholesky::LaneCholesky(Index largest)
    : factor_(static_cast<std::size_t>(largest * (largest + 1) / 2)),
      inverse_(static_cast<std::size_t>(largest)),
      x_(static_cast<std::size_t>(largest)) {}

std::array<bool, lanes> LaneCholesky::solve(Index size, double smallest) {
  std::array<bool, lanes> failed{};
  for (Index first = 0; first < size; first += rows_at_once)
    factorise_rows(first, std::min(rows_at_once, size - first), smallest, failed);
  substitute(size);
  return failed;
}

void LaneCholesky::factorise_rows(Index first, Index count, double smallest,
                                  std::array<bool, lanes>& failed) {
  // A missing row repeats the last one, so that the inner loop has no branch; it is not written back.
  std::array<Lanes*, rows_at_once> rows{};
  for (Index r = 0; r < rows_at_once; ++r)
    rows[static_cast<std::size_t>(r)] = row(first + std::min(r, count - 1));
  const auto [a, b, c, d] = rows;
  for (Index j = 0; j < first; ++j) {
    const Lanes* pivot = row(j);
    Lanes sum_a = a[j];
    Lanes sum_b = b[j];
    Lanes sum_c = c[j];
    Lanes sum_d = d[j];
    for (Index t = 0; t < j; ++t) {
      sum_a -= a[t] * pivot[t];
      sum_b -= b[t] * pivot[t];
      sum_c -= c[t] * pivot[t];
      sum_d -= d[t] * pivot[t];
    }
    const Lanes inverse = at(inverse_, j);
    a[j] = sum_a * inverse;
    if (count > 1) b[j] = sum_b * inverse;
    if (count > 2) c[j] = sum_c * inverse;
    if (count > 3) d[j] = sum_d * inverse;
  }
  for (Index r = 0; r < count; ++r) {
    Lanes* own = rows[static_cast<std::size_t>(r)];
    const Lanes diagonal = own[first + r];
    for (Index s = 0; s <= r; ++s) {
      const Lanes* pivot = rows[static_cast<std::size_t>(s)];
      Lanes sum = own[first + s];
      for (Index t = 0; t < first + s; ++t) sum -= own[t] * pivot[t];
      own[first + s] = s < r ? sum * at(inverse_, first + s) : sum;
    }
    invert_pivot(first + r, diagonal, smallest, failed);
  }
}

void LaneCholesky::invert_pivot(Index i, const Lanes& diagonal, double smallest,
                                std::array<bool, lanes>& failed) {
  const auto good = row(i)[i] > smallest * diagonal;
  const Lanes pivot = good ? row(i)[i] : Lanes{1, 1, 1, 1};
  Lanes root = pivot;
  for (Index l = 0; l < lanes; ++l) {
    root[l] = std::sqrt(pivot[l]);
    failed[static_cast<std::size_t>(l)] |= good[l] == 0;
  }
  row(i)[i] = root;
  at(inverse_, i) = 1.0 / root;
}

void LaneCholesky::substitute(Index size) {
  for (Index i = 0; i < size; ++i) {
    const Lanes* own = row(i);
    Lanes sum = at(x_, i);
    for (Index j = 0; j < i; ++j) sum -= own[j] * at(x_, j);
    at(x_, i) = sum * at(inverse_, i);
  }
  for (Index i = size - 1; i >= 0; --i) {
    const Lanes* own = row(i);
    const Lanes value = at(x_, i) *= at(inverse_, i);
    for (Index j = 0; j < i; ++j) at(x_, j) -= own[j] * value;
  }
}

}  // namespace altdiff::detail
