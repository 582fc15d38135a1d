#pragma once

#include <cmath>

#include "budget/exp.hpp"
#include "budget/places.hpp"
#include "budget/row.hpp"

namespace altdiff::detail {

// x of a row from its level (B2), and what is said of the row.

inline BudgetRow failed(Status status) { return {.status = static_cast<double>(status)}; }

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

/// Entries at a lower limit l that all share, in most rows most of them, need no arithmetic: those up to
/// `edge`. The body does the rest.
template <class T, class Body>
Written sweep_above(const T* y, Index begin, Index end, T edge, T l, T* x, const Body& body) {
  constexpr Index size = pack_size<T>;
  Written even{};
  Written odd{};
  Index low = 0;
  Index i = begin;
  for (; i + size <= end; i += size) {
    if (!any(load_pack(y + i) > Pack<T>{} + edge)) {
      store_pack(x + i, Pack<T>{} + l);
      low += size;
      continue;
    }
    for (Index k = 0; k < size; k += lanes) body(i + k, Full{}, k == 0 ? even : odd);
  }
  const auto low_sum = static_cast<double>(low) * static_cast<double>(l);
  even.sum[0] += low > 0 ? low_sum : 0;
  even.size[0] += low > 0 ? std::abs(low_sum) : 0;
  even.add(odd);
  even.add(sweep<Written>(i, end, body));
  return even;
}

/// x for sparsemax, and the row's state.
template <class T>
BudgetRow write_sparsemax(const RowOf<T>& row, double base, double level, T* x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double size = std::max(std::abs(base + level), std::abs(row.total) / static_cast<double>(row.n));
  const double near = touching_distance<T> * size;
  const Written written = with_limits(row, [&](const auto& lower, const auto& upper) {
    const auto body = [=, y = row.y](Index i, auto some, Written& w) {
      const Lanes l = lower.at(i, some);
      const Lanes u = upper.at(i, some);
      const Lanes v = (load(y + i, some, -infinity) - all(base)) - all(level);
      const Lanes own = present(some) ? smaller(larger(v, l), u) : Lanes{};
      store(x + i, own, some);
      w.sum += own;
      w.size += magnitude(own);
      w.touching -= present(some) & (smaller(magnitude(v - l), magnitude(v - u)) <= all(near)) & (l < u);
    };
    if constexpr (std::is_same_v<std::decay_t<decltype(lower)>, SameLimit>) {
      // Far enough below for rounding of base and level not to matter.
      const double l = lower.value;
      const double edge = base + level + l - 4 * near - touching_distance<T> * (size + std::abs(l));
      const T at = std::isfinite(edge) ? rounded_down<T>(edge) : -std::numeric_limits<T>::infinity();
      return over_pieces<Written>(row.n, row.threads, [&](Index begin, Index end) {
        return sweep_above(row.y, begin, end, at, static_cast<T>(l), x, body);
      });
    } else {
      return sweep_row<Written>(row.n, row.threads, body);
    }
  });
  return written.state(row.total, base, level);
}

/// x = exp(y - shift), at most exp(80); the sum in double.
template <class T>
double write_exponentials(const RowOf<T>& row, double shift, T* x) {
  constexpr Index size = pack_size<T>;
  constexpr T most = 80;
  struct Sum {
    double value = 0;
    void add(const Sum& other) { value += other.value; }
  };
  const T s = static_cast<T>(shift);
  const auto exponential = [&](const T* source) {
    const Pack<T> d = load_pack(source) - s;
    const Pack<T> limit = Pack<T>{} + most;
    return exp_pack<T>(d < limit ? d : limit);
  };
  const auto write = [&](Index begin, Index end) -> Sum {
    PackSum<T> sums;
    Index i = begin;
    const auto one = [&](Index place) {
      const Pack<T> e = exponential(row.y + place);
      store_pack(x + place, e);
      return e;
    };
    for (; i + 2 * size <= end; i += 2 * size) sums.template add<true>(one(i), one(i + size));
    if (i + size <= end) {
      sums.add(one(i));
      i += size;
    }
    if (i < end) {
      auto rest = last_pack(row.y + i, row.y + end, -std::numeric_limits<T>::infinity());
      const Pack<T> e = exponential(rest.data());
      store_pack(rest.data(), e);
      std::copy_n(rest.begin(), end - i, x + i);
      sums.add(e);
    }
    return {sums.total()};
  };
  return over_pieces<Sum>(row.n, row.threads, write).value;
}

/// Values so close to a limit that rounding may have carried them across.
template <class T>
struct Touching {
  T from, to;

  Touching(T limit, bool counts)
      : from(counts ? limit * static_cast<T>(1 - touching_distance<T>) : T{1}),
        to(counts ? limit * static_cast<T>(1 + touching_distance<T>) : T{0}) {}
};

/// Limits that are the same for all entries, in the row's own type: x = exp(y - shift) becomes
/// clip(p x, l, u). A limit that is zero, infinite, or the same as the other has nothing that touches it.
template <class T>
class SameClip {
 public:
  SameClip(T p, T l, T u)
      : p_(p),
        l_(l),
        u_(u),
        low_(l, l > 0 && l < u),
        high_(u, l < u && u < std::numeric_limits<T>::infinity()) {}

  Written operator()(T* x, Index begin, Index end) const {
    constexpr Index size = pack_size<T>;
    PackSum<T> sum;
    PackCount<T> touching;
    const auto clip = [&](T* target) {
      const Pack<T> low = Pack<T>{} + l_;
      const Pack<T> high = Pack<T>{} + u_;
      const Pack<T> v = load_pack(target) * p_;
      const Pack<T> raised = v > low ? v : low;
      const Pack<T> own = raised < high ? raised : high;
      store_pack(target, own);
      touching.add(either((v >= low_.from) & (v <= low_.to), (v >= high_.from) & (v <= high_.to)));
      return own;
    };
    Index i = begin;
    for (; i + 2 * size <= end; i += 2 * size) {
      const Pack<T> own = clip(x + i);
      sum.template add<true>(own, clip(x + i + size));
    }
    Written written{};
    for (; i < end; ++i) {
      const T v = x[i] * p_;
      x[i] = std::min(std::max(v, l_), u_);
      written.sum[1] += static_cast<double>(x[i]);
      const bool touches = (v >= low_.from && v <= low_.to) || (v >= high_.from && v <= high_.to);
      written.touching[1] += touches ? 1 : 0;
    }
    written.sum[0] = sum.total();
    written.touching[0] = static_cast<std::int64_t>(touching.total());
    return written;
  }

 private:
  T p_, l_, u_;
  Touching<T> low_, high_;
};

/// x for softmax from x = exp(y - shift), and the row's state.
template <class T>
BudgetRow write_softmax(const RowOf<T>& row, double shift, double p, T* x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double near = touching_distance<T>;
  const auto own_p = static_cast<T>(p);
  const bool same = row.lower.data == nullptr && row.upper.data == nullptr && std::isnormal(own_p);
  const auto in_packs = [&](Index begin, Index end) {
    return SameClip<T>(own_p, row.lower.value, row.upper.value)(x, begin, end);
  };
  const auto in_double = [&](const auto& lower, const auto& upper) {
    return sweep_row<Written>(row.n, row.threads, [=](Index i, auto some, Written& w) {
      const Lanes l = lower.at(i, some);
      const Lanes u = upper.at(i, some);
      const Lanes v = load(x + i, some) * p;
      const Lanes own = present(some) ? smaller(larger(v, l), u) : Lanes{};
      store(x + i, own, some);
      w.sum += own;
      const auto at_lower = (v > Lanes{}) & (magnitude(v - l) <= near * l);
      const auto at_upper = (u < all(infinity)) & (magnitude(v - u) <= near * u);
      w.touching -= present(some) & (at_lower | at_upper) & (l < u);
    });
  };
  Written written = same ? over_pieces<Written>(row.n, row.threads, in_packs) : with_limits(row, in_double);
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

}  // namespace altdiff::detail
