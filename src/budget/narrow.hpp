#pragma once

#include "budget/exp.hpp"
#include "budget/root.hpp"

namespace altdiff::detail {

// Long rows whose limits are numbers: a sample of the entries gives a bracket of the root, and one pass over
// the row takes out all entries that the bracket decides. A bracket that missed the root is noticed, because
// the root that is then found lies outside.

/// A row whose limits are numbers.
template <class T>
struct SameRow {
  const T* e;
  Index n;
  SameLimit lower, upper;
  double total, gap;  // gap: by which a sum may miss the total
};

/// The same for all pieces: their open entries one after another.
template <bool positive, class T>
TakenOut take_out_row(const SameRow<T>& row, const Edges<T>& edges, double* open, int threads) {
  std::array<TakenOut, most_pieces> parts;
  for_pieces(row.n, threads, [&](Index begin, Index end, Index piece) {
    parts[static_cast<std::size_t>(piece)] =
        take_out<positive>(row.e + begin, end - begin, edges, open + begin);
  });
  TakenOut result;
  const Pieces pieces(row.n);
  for (Index piece = 0; piece < pieces.count; ++piece) {
    const TakenOut& part = parts[static_cast<std::size_t>(piece)];
    const double* from = open + piece * pieces.length;
    if (piece > 0) std::copy(from, from + part.open, open + result.open);
    result.places.add(part.places);
    result.count += part.count;
    result.open += part.open;
  }
  return result;
}

struct Bracket {
  double a = 0, b = 0;
  bool known = false;
};

/// A bracket that holds the root with few exceptions, from every so many entries: the roots of the sample for
/// three standard errors less and more than its share of the total. Of numbers in [l, u] with a given mean
/// the variance is at most (mean - l) (u - mean).
template <class Curve, class T>
Bracket sampled_bracket(const SameRow<T>& row, RowScratch& scratch) {
  constexpr Index shortest = 8192;
  constexpr double errors = 3;
  if (row.n < shortest) return {};
  const Index step = lanes * (row.n < 16384 ? 8 : 32);
  double* sample = scratch.sample.room(row.n / step * lanes + lanes);
  Index count = 0;
  Lanes sums{};
  for (Index i = 0; i + lanes <= row.n; i += step, count += lanes) {
    const Lanes e = load(row.e + i, Full{});
    store(sample + count, e, Full{});
    sums += where(e > all(-std::numeric_limits<double>::infinity()), e, Lanes{});
  }
  const auto m = static_cast<double>(count);
  const double l = row.lower.value;
  const double u = row.upper.value;
  const double mean = row.total / static_cast<double>(row.n);
  const double margin = errors * std::sqrt(m * (mean - l) * (u - mean));
  if (!(m * mean - margin > m * l) || !(m * mean + margin < m * u)) return {};
  const auto root = [&](double total, double first) {
    RootSearch<Curve, SameEntries> search({sample, row.lower, row.upper}, count, total, margin / 8,
                                          std::numeric_limits<double>::infinity(), scratch, 1);
    return std::isfinite(first) ? search.find(first) : first;
  };
  const double first = (m * mean - Curve::sum(sum(sums), m, 0)) / Curve::slope(sum(sums), m);
  const double a = root(m * mean - margin, first);
  const double b = root(m * mean + margin, a);
  return {.a = a, .b = b, .known = Curve::lowest < a && a < b && std::isfinite(b)};
}

/// The root of a row; NaN if a sample does not lead to it.
template <class Curve, class T>
double sampled_root(const SameRow<T>& row, RowScratch& scratch, int threads) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto [a, b, known] = sampled_bracket<Curve>(row, scratch);
  if (!known) return nan;
  const auto edges = edges_of<Curve, T>(a, b, row.lower.value, row.upper.value);
  double* open = scratch.sample.room(row.n);
  const TakenOut out = take_out_row<Curve::positive>(row, edges, open, threads);
  if (out.count + static_cast<double>(out.open) == 0) return nan;
  RootSearch<Curve, SameEntries> search({open, row.lower, row.upper}, out.open, row.total, row.gap,
                                        std::numeric_limits<double>::infinity(), scratch, threads);
  search.begin_with(out.places.fixed(row.lower.value, row.upper.value), out.places.e, out.count);
  const double p = search.find(a / 2 + b / 2);
  return a <= p && p <= b ? p : nan;
}

}  // namespace altdiff::detail
