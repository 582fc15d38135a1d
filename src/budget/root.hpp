#pragma once

#include <cmath>
#include <limits>

#include "budget/places.hpp"
#include "budget/row.hpp"

namespace altdiff::detail {

// The one unknown of a row: p with sum of clip(value(e, p), lower, upper) = total, where each entry's value
// rises with p.

/// Sparsemax: e = y, p = -tau.
struct Shifted {
  static constexpr double lowest = -std::numeric_limits<double>::infinity();
  static constexpr bool positive = false;  // entries
  static Lanes value(Lanes e, Lanes p) { return e + p; }
  static Lanes slope(Lanes /*e*/) { return all(1); }
  static double sum(double e, double count, double p) { return e + count * p; }
  static double slope(double /*e*/, double count) { return count; }
  static double entry(double value, double p) { return value - p; }
};

/// Softmax: e = exp(y - shift), p = exp(shift - tau).
struct Scaled {
  static constexpr double lowest = 0;
  static constexpr bool positive = true;
  static Lanes value(Lanes e, Lanes p) { return e * p; }
  static Lanes slope(Lanes e) { return e; }
  static double sum(double e, double /*count*/, double p) { return e * p; }
  static double slope(double e, double /*count*/) { return e; }
  static double entry(double value, double p) { return value / p; }
};

/// Entries of a row, as they lie in the caller's memory.
template <class T, class Lower, class Upper>
struct RowEntries {
  const T* e;
  Lower lower;
  Upper upper;
};

template <class Entries>
constexpr bool same_limits = std::is_same_v<decltype(Entries::lower), SameLimit> &&
                             std::is_same_v<decltype(Entries::upper), SameLimit>;

/// Entries that were copied.
using OpenEntries = RowEntries<double, EachLimit<double>, EachLimit<double>>;
using SameEntries = RowEntries<double, SameLimit, SameLimit>;

/// Sums at one trial p.
struct Sums {
  double sum, slope, low, high;
};
struct Tally {
  Lanes sum{}, slope{};
  LaneMask low{}, high{};

  void add(const Tally& other) {
    sum += other.sum;
    slope += other.slope;
    low += other.low;
    high += other.high;
  }
};

/// Entries whose place a bracket decides: at a limit, or free.
struct Decided {
  Lanes fixed{}, e{};
  LaneMask count{}, low{}, high{};  // low, high: of the open ones, those at a limit at an end of the bracket

  void add(const Decided& other) {
    fixed += other.fixed;
    e += other.e;
    count += other.count;
    low += other.low;
    high += other.high;
  }
};

/// One end of the bracket, how many of the open entries are at their limits there, and the sum.
struct BracketEnd {
  double p = 0, low = 0, high = 0, sum = 0;
};

/// Newton's method within a bracket. Where the limits are two-sided it could run in circles; so entries that
/// the bracket decides are taken out, and where a step leaves the bracket, the next trial takes all others
/// for free (B3): then at least one more is decided.
template <class Curve, class Entries>
class RootSearch {
 public:
  /// A sum that misses the total by no more than `gap` is as good as it.
  RootSearch(const Entries& entries, Index n, double total, double gap, double reach, Room& scratch,
             int threads)
      : entries_(entries),
        n_(n),
        total_(total),
        smallest_gap_(gap),
        reach_(reach),
        scratch_(scratch),
        threads_(threads),
        a_{.p = Curve::lowest, .low = static_cast<double>(n), .high = 0},
        b_{.p = std::numeric_limits<double>::infinity(), .low = 0, .high = static_cast<double>(n)} {}

  /// Beside the entries, others that are decided: the sum of the fixed, and the free.
  void begin_with(double fixed, double free_e, double free_count) {
    fixed_ = fixed;
    free_e_ = free_e;
    free_count_ = free_count;
  }

  /// The root, from a first trial; a p beyond the reach if it is not within; NaN if it was not found.
  double find(double p) {
    BracketEnd last{.p = 0, .low = -1, .high = -1};
    bool was_secant = false;
    for (int k = 0; k < most_trials; ++k) {
      const BracketEnd here = at(p);
      const double gap = total_ - sum_;
      (gap < 0 ? b_ : a_) = here;
      const double newton = p + gap / slope_;  // NaN or infinite if nothing moves
      const bool same_sets = slope_ > 0 && here.low == last.low && here.high == last.high;
      if (same_sets || std::abs(gap) <= smallest_gap_) return slope_ > 0 && inside(newton) ? newton : p;
      last = here;
      double next = newton;
      if (!bracketed()) next += next - p;  // a bracket is worth more than a close trial
      const bool leaves = !inside(next);
      if (leaves && bracketed() && !was_secant) next = secant();
      was_secant = leaves && inside(next);
      if (was_secant) last.low = -1;  // as many at the limits need not be the same ones
      if (!inside(next) || k % 8 == 7)
        next = decided_trial(&last);
      else if (open_at_most() <= static_cast<double>(n_) / 4)
        take_out(&last);
      if (finished_ || a_.p >= reach_) return next;
      next = std::min(next, reach_);
      if (!inside(next)) next = middle();
      if (!inside(next)) return p;
      p = next;
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  /// The largest p of which it is known that the sum does not exceed the total.
  [[nodiscard]] double lower_end() const { return a_.p; }

 private:
  [[nodiscard]] bool bracketed() const { return a_.p > Curve::lowest && std::isfinite(b_.p); }
  [[nodiscard]] bool inside(double p) const { return a_.p < p && p < b_.p; }
  [[nodiscard]] double middle() const { return a_.p / 2 + b_.p / 2; }
  [[nodiscard]] double secant() const {
    return a_.p + (b_.p - a_.p) * ((total_ - a_.sum) / (b_.sum - a_.sum));
  }
  [[nodiscard]] double open_at_most() const { return (a_.low - b_.low) + (b_.high - a_.high); }
  template <class Set>
  [[nodiscard]] Sums tally(const Set& set, Index count, double p) const {
    if constexpr (same_limits<Set>) return same_tally(set, count, p);
    const auto all_entries = sweep_row<Tally>(count, threads_, [set, p](Index i, auto some, Tally& t) {
      const Lanes e = load(set.e + i, some);
      const Lanes l = set.lower.at(i, some);
      const Lanes u = set.upper.at(i, some);
      const Lanes v = Curve::value(e, all(p));
      const LaneMask here = present(some);
      const LaneMask low = here & (v <= l);
      const LaneMask high = here & (v >= u) & ~low;
      t.sum += here ? smaller(larger(v, l), u) : Lanes{};
      t.slope += here & ~low & ~high ? Curve::slope(e) : Lanes{};
      t.low -= low;  // a mask is -1
      t.high -= high;
    });
    return {.sum = sum(all_entries.sum),
            .slope = sum(all_entries.slope),
            .low = total(all_entries.low),
            .high = total(all_entries.high)};
  }

  template <class Set>
  [[nodiscard]] Sums same_tally(const Set& set, Index count, double p) const {
    using T = std::decay_t<decltype(*set.e)>;
    const double l = set.lower.value;
    const double u = set.upper.value;
    const Places places = count_places<Curve::positive>(set.e, count, low_edge<T>(l, p, Curve{}),
                                                        high_edge<T>(u, p, Curve{}), threads_);
    const double free = static_cast<double>(count) - places.low - places.high;
    return {.sum = places.fixed(l, u) + Curve::sum(places.e, free, p),
            .slope = Curve::slope(places.e, free),
            .low = places.low,
            .high = places.high};
  }

  /// Sets sum and slope at p.
  BracketEnd at(double p) {
    const Sums t = copied_ ? tally(open_, n_, p) : tally(entries_, n_, p);
    sum_ = fixed_ + Curve::sum(free_e_, free_count_, p) + t.sum;
    slope_ = Curve::slope(free_e_, free_count_) + t.slope;
    return {.p = p, .low = t.low, .high = t.high, .sum = sum_};
  }

  /// Keeps of a set the entries that the bracket leaves open, and adds up the others.
  template <class Set>
  void keep_open(const Set& set, double* e_open, double* l_open, double* u_open) {
    constexpr double huge = std::numeric_limits<double>::max();  // a masked entry is at its lower limit
    const double a = std::max(a_.p, -huge);
    const double b = std::min(b_.p, huge);
    Index kept = 0;
    const auto body = [=, &kept](Index i, auto some, Decided& d) {
      const Lanes e = load(set.e + i, some);
      const Lanes l = set.lower.at(i, some);
      const Lanes u = set.upper.at(i, some);
      const Lanes at_a = Curve::value(e, all(a));
      const Lanes at_b = Curve::value(e, all(b));
      const LaneMask here = present(some);
      const LaneMask is_low = here & (at_b <= l);
      const LaneMask is_high = here & ~is_low & (at_a >= u);
      const LaneMask is_free = here & ~is_low & ~is_high & (at_a > l) & (at_b < u);
      const LaneMask open = here & ~is_low & ~is_high & ~is_free;
      d.fixed += where(is_low, l, Lanes{}) + where(is_high, u, Lanes{});
      d.e += is_free ? e : Lanes{};
      d.count -= is_free;
      d.low -= open & (at_a <= l);
      d.high -= open & (at_b >= u);
      if (!any(open)) return;
      for (Index lane = 0; lane < lanes; ++lane) {  // what is not kept is written over
        e_open[kept] = e[lane];
        l_open[kept] = l[lane];
        u_open[kept] = u[lane];
        kept -= open[lane];
      }
    };
    const auto d = sweep<Decided>(0, n_, body);
    fixed_ += sum(d.fixed);
    free_e_ += sum(d.e);
    free_count_ += total(d.count);
    a_ = {.p = a_.p, .low = total(d.low), .high = 0, .sum = a_.sum};
    b_ = {.p = b_.p, .low = 0, .high = total(d.high), .sum = b_.sum};
    open_ = {.e = e_open, .lower = {l_open}, .upper = {u_open}};
    n_ = kept;
    copied_ = true;
  }

  template <class Set>
  void keep_open_same(const Set& set, double* open) {
    using T = std::decay_t<decltype(*set.e)>;
    constexpr double huge = std::numeric_limits<double>::max();
    const double l = set.lower.value;
    const double u = set.upper.value;
    const auto edges = edges_of<Curve, T>(std::max(a_.p, -huge), std::min(b_.p, huge), l, u);
    const TakenOut out = detail::take_out<Curve::positive>(set.e, n_, edges, open);
    fixed_ += out.places.fixed(l, u);
    free_e_ += out.places.e;
    free_count_ += out.count;
    n_ = out.open;
    a_ = {.p = a_.p, .low = out.low_open, .high = 0, .sum = a_.sum};
    b_ = {.p = b_.p, .low = 0, .high = out.high_open, .sum = b_.sum};
    open_ = {.e = open, .lower = set.lower, .upper = set.upper};
    copied_ = true;
  }

  template <class Set>
  void keep_open(const Set& set) {
    if constexpr (same_limits<Set>)
      keep_open_same(set, memory_);
    else
      keep_open(set, memory_, memory_ + room_, memory_ + 2 * room_);
  }

  /// `last` counts entries that may be gone.
  void take_out(BracketEnd* last) {
    last->low = -1;
    if (copied_) {
      keep_open(open_);
      return;
    }
    room_ = static_cast<Index>(std::min(open_at_most(), static_cast<double>(n_))) + pack_size<float>;
    memory_ = scratch_.room((same_limits<Entries> ? 1 : 3) * room_);
    keep_open(entries_);
  }

  /// What the total would be if all that is not fixed were free: the next trial. (B3)
  double decided_trial(BracketEnd* last) {
    take_out(last);
    struct Sum {
      Lanes e{};
      void add(const Sum& other) { e += other.e; }
    };
    const auto open = sweep<Sum>(0, n_, [&](Index i, auto some, Sum& s) { s.e += load(open_.e + i, some); });
    const double e = free_e_ + sum(open.e);
    const double count = free_count_ + static_cast<double>(n_);
    if (n_ == 0) finished_ = true;
    if (count == 0) {
      // Entries too small for their exponentials look as if nothing could move them.
      const bool missing = total_ - fixed_ > 1e-12 * std::abs(total_) && !std::isfinite(b_.p);
      if (missing && std::isfinite(reach_)) return b_.p;
      if (bracketed()) return middle();
      return std::isfinite(b_.p) ? b_.p : a_.p;
    }
    return (total_ - fixed_ - Curve::sum(e, count, 0)) / Curve::slope(e, count);
  }

  static double sum(const Lanes& v) { return detail::sum(v); }
  static double total(const LaneMask& v) { return static_cast<double>((v[0] + v[1]) + (v[2] + v[3])); }

  static constexpr int most_trials = 400;

  Entries entries_;
  Index n_;  // entries that are open
  double total_, smallest_gap_, reach_;
  Room& scratch_;
  int threads_;
  BracketEnd a_, b_;
  double fixed_ = 0, free_e_ = 0, free_count_ = 0;  // of decided entries
  double sum_ = 0, slope_ = 0;                      // at the last trial
  bool copied_ = false, finished_ = false;
  std::conditional_t<same_limits<Entries>, SameEntries, OpenEntries> open_{};
  double* memory_ = nullptr;
  Index room_ = 0;
};

}  // namespace altdiff::detail
