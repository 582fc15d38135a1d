#include "linalg/lanes.hpp"

#include <algorithm>
#include <cmath>

namespace altdiff::detail {

namespace {

constexpr Index rows_at_once = 4;  // independent sums, which hide the latency of each addition

struct Rows {
  Lanes *a, *b, *c, *d;
};

/// Rows first .. first + count; a missing one repeats the last, so that inner loops have no branch.
Rows some_rows(const LaneMatrix& A, Index first, Index count) {
  const auto row = [&](Index r) { return A.row(first + std::min(r, count - 1)); };
  return {.a = row(0), .b = row(1), .c = row(2), .d = row(3)};
}

struct Sums {
  Lanes a, b, c, d;

  /// sums += rows . other, over `length` columns
  void add(const Rows& rows, const Lanes* other, Index length) {
    for (Index t = 0; t < length; ++t) {
      a += rows.a[t] * other[t];
      b += rows.b[t] * other[t];
      c += rows.c[t] * other[t];
      d += rows.d[t] * other[t];
    }
  }
  void add(const Sums& other) {
    a += other.a;
    b += other.b;
    c += other.c;
    d += other.d;
  }
  void subtract(const Rows& rows, Index column, const Lanes& factor) {
    a -= rows.a[column] * factor;
    b -= rows.b[column] * factor;
    c -= rows.c[column] * factor;
    d -= rows.d[column] * factor;
  }
  void subtract(const Sums& other, const Lanes& factor) {
    a -= other.a * factor;
    b -= other.b * factor;
    c -= other.c * factor;
    d -= other.d * factor;
  }
  void scale(const Lanes& factor) {
    a *= factor;
    b *= factor;
    c *= factor;
    d *= factor;
  }
  void write(const Rows& rows, Index column, Index count) const {
    rows.a[column] = a;
    if (count > 1) rows.b[column] = b;
    if (count > 2) rows.c[column] = c;
    if (count > 3) rows.d[column] = d;
  }
};

Sums at_column(const Rows& rows, Index column) {
  return {.a = rows.a[column], .b = rows.b[column], .c = rows.c[column], .d = rows.d[column]};
}

/// Root and inverse of a pivot; returns it relative to what stood on the diagonal, zero if it is not
/// positive.
Lanes take_root(Lanes& pivot, const Lanes& diagonal, Lanes& inverse) {
  const Lanes share = pivot > 0 ? pivot / diagonal : Lanes{};
  const Lanes good = pivot > 0 ? pivot : Lanes{1, 1, 1, 1};
  for (Index l = 0; l < lanes; ++l) pivot[l] = std::sqrt(good[l]);
  inverse = 1.0 / pivot;
  return share;
}

}  // namespace

void interleave(const std::array<const double*, lanes>& sources, Index count, Lanes* target) {
  const auto [a, b, c, d] = sources;
  for (Index i = 0; i < count; ++i) target[i] = Lanes{a[i], b[i], c[i], d[i]};
}

namespace {

/// Rows below the squares of the first `columns` columns, two columns at a time: each number that is read
/// serves two sums.
void finish_rows(const LaneMatrix& T, const Rows& rows, Index columns, Index count, const Lanes* inverse) {
  Index j = 0;
  for (; j + 2 <= columns; j += 2) {
    const Lanes* pivot = T.row(j);
    const Lanes* next = T.row(j + 1);
    Sums left = at_column(rows, j);
    Sums right = at_column(rows, j + 1);
    for (Index t = 0; t < j; ++t) {
      left.subtract(rows, t, pivot[t]);
      right.subtract(rows, t, next[t]);
    }
    left.scale(inverse[j]);
    right.subtract(left, next[j]);
    right.scale(inverse[j + 1]);
    left.write(rows, j, count);
    right.write(rows, j + 1, count);
  }
  if (j == columns) return;
  Sums last = at_column(rows, j);
  for (Index t = 0; t < j; ++t) last.subtract(rows, t, T.row(j)[t]);
  last.scale(inverse[j]);
  last.write(rows, j, count);
}

}  // namespace

Lanes partial_cholesky(const LaneMatrix& T, Lanes* inverse) {
  Lanes smallest{1, 1, 1, 1};
  for (Index first = 0; first < T.rows; first += rows_at_once) {
    const Index count = std::min(rows_at_once, T.rows - first);
    const Rows rows = some_rows(T, first, count);
    finish_rows(T, rows, std::min(first, T.columns), count, inverse);
    for (Index r = 0; r < count; ++r) {
      Lanes* own = T.row(first + r);
      for (Index j = first; j < std::min(first + r + 1, T.columns); ++j) {
        const Lanes* pivot = T.row(j);
        Lanes sum = own[j];
        for (Index t = 0; t < j; ++t) sum -= own[t] * pivot[t];
        if (j < first + r) {
          own[j] = sum * inverse[j];
          continue;
        }
        const Lanes share = take_root(sum, own[j], inverse[j]);
        smallest = share < smallest ? share : smallest;
        own[j] = sum;
      }
    }
  }
  return smallest;
}

void solve_lower(const LaneMatrix& L, const Lanes* inverse, Lanes* x) {
  for (Index i = 0; i < L.columns; ++i) {
    const Lanes* own = L.row(i);
    Lanes sum = x[i];
    for (Index j = 0; j < i; ++j) sum -= own[j] * x[j];
    x[i] = sum * inverse[i];
  }
}

void solve_upper(const LaneMatrix& L, const Lanes* inverse, Lanes* x) {
  for (Index i = L.columns - 1; i >= 0; --i) {
    const Lanes* own = L.row(i);
    const Lanes value = x[i] *= inverse[i];
    for (Index j = 0; j < i; ++j) x[j] -= own[j] * value;
  }
}

void add_lower_product(double alpha, const LaneMatrix& A, const LaneMatrix& B, const LaneMatrix& C) {
  for (Index first = 0; first < A.rows; first += rows_at_once) {
    const Index count = std::min(rows_at_once, A.rows - first);
    const Rows rows = some_rows(A, first, count);
    const Rows targets = some_rows(C, first, count);
    for (Index j = 0; j < std::min(first + count, B.rows); ++j) {
      Sums sums{};
      sums.add(rows, B.row(j), A.columns);
      sums.scale(alpha * Lanes{1, 1, 1, 1});
      sums.add(at_column(targets, j));
      sums.write(targets, j, count);
    }
  }
}

void add_product(double alpha, const LaneMatrix& A, const Lanes* x, Lanes* y) {
  for (Index first = 0; first < A.rows; first += rows_at_once) {
    const Index count = std::min(rows_at_once, A.rows - first);
    Sums sums{};
    sums.add(some_rows(A, first, count), x, A.columns);
    y[first] += alpha * sums.a;
    if (count > 1) y[first + 1] += alpha * sums.b;
    if (count > 2) y[first + 2] += alpha * sums.c;
    if (count > 3) y[first + 3] += alpha * sums.d;
  }
}

void add_transposed_product(double alpha, const LaneMatrix& A, const Lanes* x, Lanes* y) {
  for (Index i = 0; i < A.rows; ++i) {
    const Lanes* own = A.row(i);
    const Lanes factor = alpha * x[i];
    for (Index j = 0; j < A.columns; ++j) y[j] += factor * own[j];
  }
}

LaneCholesky::LaneCholesky(Index largest) : largest_(largest), memory_(lanes * largest * (largest + 2)) {}

std::array<bool, lanes> LaneCholesky::solve(double smallest) {
  const Lanes pivots = partial_cholesky(matrix(), inverse());
  solve_lower(matrix(), inverse(), right_sides());
  solve_upper(matrix(), inverse(), right_sides());
  std::array<bool, lanes> failed{};
  for (Index l = 0; l < lanes; ++l) failed[static_cast<std::size_t>(l)] = !(pivots[l] > smallest);
  return failed;
}

}  // namespace altdiff::detail
