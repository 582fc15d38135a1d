#include "budget/row.hpp"

#include <cmath>

#include "budget/facts.hpp"
#include "budget/narrow.hpp"
#include "budget/simplex.hpp"
#include "budget/write.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A root, and a p at which it is known that the sum does not exceed the total.
struct Found {
  double p, known;
};

/// Of the row with entries e; a p beyond the reach if the root is not within.
template <class Curve, class T>
Found find_root(const RowOf<T>& row, const T* e, double size, double first, double reach,
                RowScratch& scratch) {
  const double gap = std::numeric_limits<double>::epsilon() * size;
  return with_limits(row, [&](const auto& lower, const auto& upper) -> Found {
    using Lower = std::decay_t<decltype(lower)>;
    using Upper = std::decay_t<decltype(upper)>;
    if constexpr (std::is_same_v<Lower, SameLimit> && std::is_same_v<Upper, SameLimit>) {
      const SameRow<T> same{e, row.n, lower, upper, row.total, gap};
      const double p = sampled_root<Curve>(same, scratch, row.threads);
      if (p <= reach) return {.p = p, .known = p};
    }
    RootSearch<Curve, RowEntries<T, Lower, Upper>> search({e, lower, upper}, row.n, row.total, gap, reach,
                                                          scratch, row.threads);
    const double p = search.find(first);
    return {.p = p, .known = search.lower_end()};
  });
}

template <class T>
BudgetRow capped_sparsemax(const RowOf<T>& row, const Facts& facts, T* x, RowScratch& scratch) {
  const auto search = [&](const T* e, double first) {
    return find_root<Shifted>(row, e, facts.size, first, infinity, scratch).p;
  };
  constexpr double far = 1e4;
  constexpr int most_moves = 32;
  const double first = row.total / static_cast<double>(row.n) - facts.mean;
  double p = search(row.y, std::isfinite(first) ? first : -facts.largest);
  double base = 0;
  for (int k = 0; k < most_moves && std::abs(p) > far * std::abs(row.total); ++k) {
    const double next = base - p;  // beside a large y the level has too few digits
    if (next == base) break;
    base = next;
    for (Index i = 0; i < row.n; ++i) x[i] = static_cast<T>(static_cast<double>(row.y[i]) - base);
    p = search(x, 0);
  }
  if (!std::isfinite(p)) return failed(Status::NumericalError);
  return write_sparsemax(row, base, -p, x);
}

/// The largest y that `p` does not hold at its upper limit.
template <class T>
double largest_below(const RowOf<T>& row, const T* e, double p) {
  double largest = -infinity;
  for (Index i = 0; i < row.n; ++i)
    if (static_cast<double>(e[i]) * p < row.upper_at(i))
      largest = std::max(largest, static_cast<double>(row.y[i]));
  return largest;
}

template <class T>
BudgetRow capped_softmax(const RowOf<T>& row, double shift, double size, T* x, RowScratch& scratch) {
  constexpr double reach = 1e15;  // beyond, what is left of the row has too few digits, or none
  const bool one_limit = row.upper.data == nullptr && row.lower.data == nullptr && row.lower.value == 0;
  // What the largest entry, whose exponential is 1, may be without touching its limit.
  double largest_free = one_limit ? row.upper_at(0) * (1 - 2 * touching_distance<T>) : 0;
  for (;;) {
    const double e = write_exponentials(row, shift, x);
    if (row.total / e < largest_free) return write_plain_softmax(row, shift, row.total / e, x);
    const auto [p, known] = find_root<Scaled>(row, x, size, row.total / e, reach * row.total, scratch);
    if (p <= reach * row.total) return write_softmax(row, shift, p, x);
    const double next = largest_below(row, x, known);
    if (!(next < shift)) return failed(Status::NumericalError);
    if (next == -infinity) return write_softmax(row, shift, known, x);  // all that moves is at its limit
    shift = next;
    largest_free = 0;
  }
}

template <class T>
Status checked(const RowOf<T>& row, const Facts& facts) {
  constexpr double rounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  if (!facts.valid) return Status::InvalidData;
  const double margin = rounding * facts.size;
  const auto above = [&](double a, double b) { return a - b > margin; };
  if (above(facts.lower, row.total) || (facts.upper < infinity && above(row.total, facts.upper)))
    return Status::PrimalInfeasible;
  return Status::Solved;
}

/// x at the lower limits, which use up the total.
template <class T>
BudgetRow at_lower(const RowOf<T>& row, double largest, T* x) {
  for (Index i = 0; i < row.n; ++i) x[i] = static_cast<T>(row.lower_at(i));
  if (largest == -infinity) return {};
  // A level at which no entry leaves its limit; for softmax there is none below infinity if the limit is 0.
  double level = row.kind == Budget::Softmax ? infinity : -infinity;
  for (Index i = 0; i < row.n && row.kind == Budget::Sparsemax; ++i)
    level = std::max(level, static_cast<double>(row.y[i]) - largest - row.lower_at(i));
  return {.base = largest, .level = level};
}

/// No limit but the lower one, the same for all entries, can hold an entry.
template <class T>
bool is_plain(const RowOf<T>& row) {
  if (row.lower.data != nullptr || row.upper.data != nullptr) return false;
  const auto l = static_cast<double>(row.lower.value);
  const auto u = static_cast<double>(row.upper.value);
  if (!(l > -infinity) || !(u >= l)) return false;
  if (row.kind == Budget::Softmax && l != 0) return false;
  return u >= row.total - static_cast<double>(row.n - 1) * l;
}

template <class T>
BudgetRow plain_sparsemax(const RowOf<T>& row, T* x) {
  const auto l = static_cast<double>(row.lower.value);
  const double total = row.total - static_cast<double>(row.n) * l;
  const SimplexLevel found = simplex_level(row.y, row.n, total, x, row.threads);
  if (!found.valid) return failed(Status::InvalidData);
  if (found.masked) return failed(Status::PrimalInfeasible);
  return write_sparsemax(row, found.base, found.level - l, x);
}

template <class T>
BudgetRow plain_softmax(const RowOf<T>& row, T* x) {
  const double largest = row_top(row.y, row.n, row.threads).largest;
  if (std::isnan(largest)) return failed(Status::InvalidData);
  if (largest == -infinity) return failed(Status::PrimalInfeasible);
  const double e = write_exponentials(row, largest, x);
  return write_plain_softmax(row, largest, row.total / e, x);
}

template <class T>
BudgetRow capped_row(const RowOf<T>& row, T* x, RowScratch& scratch) {
  const Facts facts = facts_of(row);
  const Status status = checked(row, facts);
  if (status != Status::Solved) return failed(status);
  const double spare = row.total - facts.lower;
  const bool none = spare <= std::numeric_limits<double>::epsilon() * facts.size;
  if (facts.largest == -infinity || none) return at_lower(row, facts.largest, x);
  return row.kind == Budget::Sparsemax ? capped_sparsemax(row, facts, x, scratch)
                                       : capped_softmax(row, facts.largest, facts.size, x, scratch);
}

}  // namespace

template <class T>
BudgetRow solve_row(const RowOf<T>& row, T* x, RowScratch& scratch) {
  if (!std::isfinite(row.total)) return failed(Status::InvalidData);
  if (row.n == 0) return row.total == 0 ? BudgetRow{} : failed(Status::PrimalInfeasible);
  const bool plain =
      is_plain(row) && row.total > static_cast<double>(row.n) * static_cast<double>(row.lower.value);
  if (!plain) return capped_row(row, x, scratch);
  return row.kind == Budget::Sparsemax ? plain_sparsemax(row, x) : plain_softmax(row, x);
}

template BudgetRow solve_row(const RowOf<float>&, float*, RowScratch&);
template BudgetRow solve_row(const RowOf<double>&, double*, RowScratch&);

}  // namespace altdiff::detail
