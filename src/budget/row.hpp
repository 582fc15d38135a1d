#pragma once

#include <altdiff/budget.hpp>
#include <limits>

#include "budget/sweep.hpp"
#include "linalg/memory.hpp"

namespace altdiff::detail {

/// One row of a batch.
template <class T>
struct RowOf {
  Budget kind;
  Index n;
  const T* y;
  BudgetLimit<T> lower, upper;  // data, if any, are the row's own
  double total;
  int threads;  // that may work on this row

  RowOf(const BudgetProgram<T>& program, Index r, int row_threads)
      : kind(program.kind),
        n(program.n),
        y(program.y + r * program.n),
        lower(limit(program.lower, r)),
        upper(limit(program.upper, r)),
        total(static_cast<double>(number(limit(program.total, r), 0))),
        threads(row_threads) {}

  [[nodiscard]] double lower_at(Index i) const { return static_cast<double>(number(lower, i)); }
  [[nodiscard]] double upper_at(Index i) const { return static_cast<double>(number(upper, i)); }

 private:
  static BudgetLimit<T> limit(BudgetLimit<T> all_rows, Index r) {
    if (all_rows.data == nullptr) return all_rows;
    all_rows.data += r * all_rows.row_stride;
    if (all_rows.stride != 0) return all_rows;
    all_rows.value = *all_rows.data;
    all_rows.data = nullptr;
    return all_rows;
  }
  static T number(const BudgetLimit<T>& limit, Index i) {
    return limit.data == nullptr ? limit.value : limit.data[i * limit.stride];
  }
};

/// A limit that is the same for all entries of a row, and one that is not. `filler` is for lanes beyond the
/// end.
struct SameLimit {
  double value;
  template <class Count>
  [[nodiscard]] Lanes at(Index /*i*/, Count /*count*/) const {
    return all(value);
  }
};
template <class T>
struct EachLimit {
  const T* data;
  template <class Count>
  [[nodiscard]] Lanes at(Index i, Count count) const {
    return load(data + i, count);
  }
};

/// Calls body(lower, upper) with limits of the kind that the row has, so that loops need not ask. Numbers of
/// each entry's own lie side by side.
template <class T, class Body>
auto with_limits(const RowOf<T>& row, const Body& body) {
  const SameLimit lower{double{row.lower.value}};
  const SameLimit upper{double{row.upper.value}};
  if (row.lower.data == nullptr && row.upper.data == nullptr) return body(lower, upper);
  if (row.lower.data == nullptr) return body(lower, EachLimit<T>{row.upper.data});
  if (row.upper.data == nullptr) return body(EachLimit<T>{row.lower.data}, upper);
  return body(EachLimit<T>{row.lower.data}, EachLimit<T>{row.upper.data});
}

/// How far rounding may move y - tau, or the logarithm of x.
template <class T>
constexpr double touching_distance = 8.0 * std::numeric_limits<T>::epsilon();

/// Memory that the rows of one thread use one after another.
struct Room {
  Memory numbers;
  Index size = 0;

  /// Room for `count` numbers; what was there is lost.
  double* room(Index count) {
    if (count > size) {
      numbers = Memory(count);
      size = count;
    }
    return numbers.data();
  }
};

struct RowScratch : Room {
  Room sample;
};

/// Solves one row: x, and what is said of it.
template <class T>
[[nodiscard]] BudgetRow solve_row(const RowOf<T>& row, T* x, RowScratch& scratch);

}  // namespace altdiff::detail
