#include "budget/row.hpp"

#include <cmath>

#include "budget/exp.hpp"
#include "budget/facts.hpp"
#include "budget/narrow.hpp"
#include "budget/simplex.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

BudgetRow failed(Status status) { return {.status = static_cast<double>(status)}; }

/// Sums over x as it is written.
struct Written {
  Lanes sum{}, size{};
  LaneMask touching{};

  void add(const Written& other) {
    sum += other.sum;
    size += other.size;
    touching += other.touching;
  }

  /// The row's state. A level that misses the total must not pass for a solution.
  [[nodiscard]] BudgetRow state(double total, double base, double level) const {
    constexpr double tolerance = 1e-6;
    const double miss = std::abs(detail::sum(sum) - total);
    if (!(miss <= tolerance * (std::abs(total) + detail::sum(size)))) return failed(Status::NumericalError);
    const LaneMask& t = touching;
    return {.base = base, .level = level, .touching = static_cast<double>((t[0] + t[1]) + (t[2] + t[3]))};
  }
};

/// x of (B2) for sparsemax, and the row's state.
template <class T>
BudgetRow write_sparsemax(const RowOf<T>& row, double base, double level, T* x) {
  const double size = std::max(std::abs(base + level), std::abs(row.total) / static_cast<double>(row.n));
  const double near = touching_distance<T> * size;
  const Written written = with_limits(row, [&](const auto& lower, const auto& upper) {
    return sweep_row<Written>(row.n, row.threads, [=, y = row.y](Index i, auto some, Written& w) {
      const Lanes l = lower.at(i, some);
      const Lanes u = upper.at(i, some);
      const Lanes v = (load(y + i, some, -infinity) - all(base)) - all(level);
      const Lanes own = present(some) ? smaller(larger(v, l), u) : Lanes{};  // (B2)
      store(x + i, own, some);
      w.sum += own;
      w.size += magnitude(own);
      w.touching -= present(some) & (smaller(magnitude(v - l), magnitude(v - u)) <= all(near)) & (l < u);
    });
  });
  return written.state(row.total, base, level);
}

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

/// x = exp(y - shift), at most exp(80); the sum in double.
template <class T>
double write_exponentials(const RowOf<T>& row, double shift, T* x) {
  constexpr Index size = pack_size<T>;
  constexpr T most = 80;
  struct Part {
    double sum = 0;
  };
  std::array<Part, most_pieces> parts;
  const T s = static_cast<T>(shift);
  const auto one = [&](const T* source, T* target) {
    const Pack<T> d = load_pack(source) - s;
    const Pack<T> limit = Pack<T>{} + most;
    const Pack<T> e = exp_pack<T>(d < limit ? d : limit);
    std::memcpy(target, &e, sizeof(e));
  };
  for_pieces(row.n, row.threads, [&](Index begin, Index end, Index piece) {
    Lanes sums{};
    Index i = begin;
    for (; i + size <= end; i += size) {
      one(row.y + i, x + i);
      for (Index k = 0; k < size; k += lanes) sums += load(x + i + k, Full{});
    }
    if (i < end) {
      std::array<T, static_cast<std::size_t>(size)> rest{};
      rest.fill(-std::numeric_limits<T>::infinity());
      std::copy(row.y + i, row.y + end, rest.begin());
      one(rest.data(), rest.data());
      std::copy_n(rest.begin(), end - i, x + i);
      for (const T e : rest) sums[0] += static_cast<double>(e);
    }
    parts[static_cast<std::size_t>(piece)].sum = sum(sums);
  });
  double total = 0;
  for (Index piece = 0; piece < Pieces(row.n).count; ++piece)
    total += parts[static_cast<std::size_t>(piece)].sum;
  return total;
}

/// x of (B2) for softmax from x = exp(y - shift), and the row's state.
template <class T>
BudgetRow write_softmax(const RowOf<T>& row, double shift, double p, T* x) {
  constexpr double near = touching_distance<T>;
  Written written = with_limits(row, [&](const auto& lower, const auto& upper) {
    return sweep_row<Written>(row.n, row.threads, [=](Index i, auto some, Written& w) {
      const Lanes l = lower.at(i, some);
      const Lanes u = upper.at(i, some);
      const Lanes v = load(x + i, some) * p;
      const Lanes own = present(some) ? smaller(larger(v, l), u) : Lanes{};  // (B2)
      store(x + i, own, some);
      w.sum += own;
      const auto at_lower = (v > Lanes{}) & (magnitude(v - l) <= near * l);
      const auto at_upper = (u < all(infinity)) & (magnitude(v - u) <= near * u);
      w.touching -= present(some) & (at_lower | at_upper) & (l < u);
    });
  });
  written.size = written.sum;
  return written.state(row.total, shift, -std::log(p));
}

/// The same without limits in the way.
template <class T>
BudgetRow write_plain_softmax(const RowOf<T>& row, double shift, double p, T* x) {
  const T factor = static_cast<T>(p);
  for_pieces(row.n, row.threads, [&](Index begin, Index end, Index /*piece*/) {
    for (Index i = begin; i < end; ++i) x[i] *= factor;
  });
  return {.base = shift, .level = -std::log(p)};
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
