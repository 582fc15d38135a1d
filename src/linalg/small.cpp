#include "linalg/small.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "linalg/at.hpp"
#include "linalg/parallel_for.hpp"

namespace altdiff::detail {

namespace {

constexpr Index four = 4;  // numbers in a vector register, and columns of a tile

using Quad [[gnu::vector_size(four * sizeof(double)), gnu::aligned(sizeof(double)), gnu::may_alias]] = double;

Quad& quad(double* p) { return *reinterpret_cast<Quad*>(p); }
const Quad& quad(const double* p) { return *reinterpret_cast<const Quad*>(p); }

/// Rows of quads by columns, in registers.
template <Index quads, Index columns>
struct Tile {
  Quad entry[quads][columns] = {};  // NOLINT: std::array loses the alignment of its type
};

/// Calls body(i, quads) for the rows from `first`, in tiles of twelve and at the end of eight or four.
template <class Body>
void for_tiles(Index first, Index rows, const Body& body) {
  Index i = first;
  for (; rows - i > 2 * four; i += 3 * four) body(i, std::integral_constant<Index, 3>());
  if (rows - i > four) {
    body(i, std::integral_constant<Index, 2>());
  } else if (rows - i > 0) {
    body(i, std::integral_constant<Index, 1>());
  }
}

/// tile += rows times the transposed pivot rows, over `length` columns.
template <Index quads, Index columns>
void accumulate(Tile<quads, columns>& tile, const double* rows, const double* pivots, Index stride,
                Index length) {
  for (Index t = 0; t < length; ++t, rows += stride, pivots += stride)
    for (Index c = 0; c < columns; ++c)
      for (Index r = 0; r < quads; ++r) tile.entry[r][c] += quad(rows + four * r) * pivots[c];
}

/// The square of a panel on the diagonal.
template <Index columns>
struct Corner {
  std::array<std::array<double, columns>, columns> L{};
  std::array<double, columns> inverse{};

  [[nodiscard]] bool factorise(double* square, Index stride) {
    for (Index c = 0; c < columns; ++c) {
      for (Index i = c; i < columns; ++i) {
        double sum = square[c * stride + i];
        for (Index d = 0; d < c; ++d) sum -= L[at(i)][at(d)] * L[at(c)][at(d)];
        if (i == c) {
          if (!(sum > 0)) return false;
          L[at(c)][at(c)] = std::sqrt(sum);
          inverse[at(c)] = 1 / L[at(c)][at(c)];
        } else {
          L[at(i)][at(c)] = sum * inverse[at(c)];
        }
        square[c * stride + i] = L[at(i)][at(c)];
      }
    }
    return true;
  }
};

/// Rows of a panel below its square: what earlier columns leave of them, times the inverse of the square.
template <Index quads, Index columns>
void finish_rows(double* rows, const double* above, const double* pivots, Index stride, Index length,
                 const Corner<columns>& corner) {
  Tile<quads, columns> tile{};
  accumulate<quads, columns>(tile, above, pivots, stride, length);
  for (Index c = 0; c < columns; ++c)
    for (Index r = 0; r < quads; ++r) {
      Quad value = quad(rows + c * stride + four * r) - tile.entry[r][c];
      for (Index d = 0; d < c; ++d) value -= tile.entry[r][d] * corner.L[at(c)][at(d)];
      tile.entry[r][c] = value * corner.inverse[at(c)];
      quad(rows + c * stride + four * r) = tile.entry[r][c];
    }
}

/// Columns first .. first + columns of T; the earlier ones are done. Leaves the rows below its square.
template <Index columns>
bool factorise_corner(double* T, Index stride, Index first, Corner<columns>& corner) {
  double* square = T + first * stride + first;
  // Two sums, because one alone would wait for each addition.
  Tile<1, columns> even{};
  Tile<1, columns> odd{};
  const double* rows = T + first;
  Index t = 0;
  for (; t + 2 <= first; t += 2, rows += 2 * stride) {
    accumulate<1, columns>(even, rows, rows, stride, 1);
    accumulate<1, columns>(odd, rows + stride, rows + stride, stride, 1);
  }
  accumulate<1, columns>(even, rows, rows, stride, first - t);
  for (Index c = 0; c < columns; ++c) {
    const Quad sum = even.entry[0][c] + odd.entry[0][c];
    for (Index i = c; i < columns; ++i) square[c * stride + i] -= sum[i];
  }
  return corner.factorise(square, stride);
}

template <Index columns>
void finish_panel(double* T, Index stride, Index first, Index begin, Index end,
                  const Corner<columns>& corner) {
  for_tiles(begin, end, [&](Index i, auto quads) {
    finish_rows<quads, columns>(T + first * stride + i, T + i, T + first, stride, first, corner);
  });
}

/// The columns that are left when four no longer fit.
template <Index columns>
bool factorise_last(double* T, Index stride, Index rows, Index first) {
  Corner<columns> corner;
  if (!factorise_corner(T, stride, first, corner)) return false;
  finish_panel(T, stride, first, first + columns, rows, corner);
  return true;
}

constexpr Index block = 48;  // columns whose rows below the square do not depend on each other

/// Panels of four columns, first .. first + columns.
class BlockColumn {
 public:
  BlockColumn(double* T, Index stride, Index first, Index columns)
      : T_(T), stride_(stride), first_(first), columns_(columns) {}

  [[nodiscard]] bool factorise_square() {
    for (Index c = 0; c < columns_; c += four) {
      auto& corner = corners_[at(c / four)];
      if (!factorise_corner(T_, stride_, first_ + c, corner)) return false;
      finish_panel(T_, stride_, first_ + c, first_ + c + four, first_ + columns_, corner);
    }
    return true;
  }
  void finish(Index begin, Index end) const {
    for (Index c = 0; c < columns_; c += four)
      finish_panel(T_, stride_, first_ + c, begin, end, corners_[at(c / four)]);
  }

 private:
  double* T_;
  Index stride_, first_, columns_;
  std::array<Corner<four>, block / four> corners_{};
};

template <Index quads, Index columns>
void write_tile(double alpha, const double* rows, const double* pivots, Index stride, Index length,
                double beta, double* C, Index stride_C) {
  Tile<quads, columns> tile{};
  accumulate<quads, columns>(tile, rows, pivots, stride, length);
  for (Index c = 0; c < columns; ++c)
    for (Index r = 0; r < quads; ++r) {
      Quad& target = quad(C + c * stride_C + four * r);
      target = beta == 0 ? alpha * tile.entry[r][c] : alpha * tile.entry[r][c] + beta * target;
    }
}

template <Index columns>
void gram_columns(double alpha, const double* A, Index stride_A, Index rows, Index length, double beta,
                  double* C, Index stride_C, Index first) {
  for_tiles(first, rows, [&](Index i, auto quads) {
    write_tile<quads, columns>(alpha, A + i, A + first, stride_A, length, beta, C + first * stride_C + i,
                               stride_C);
  });
}

constexpr Index gram_block = 16;  // columns

template <class Body>
void for_chunks(Index count, int threads, const Body& body) {
  if (threads > 1) {
    parallel_for(count, threads, body);
  } else {
    for (Index chunk = 0; chunk < count; ++chunk) body(chunk);
  }
}

struct Square {
  Quad row[four];  // NOLINT: std::array loses the alignment of its type
};

Square load(const double* source, Index stride) {
  return {{quad(source), quad(source + stride), quad(source + 2 * stride), quad(source + 3 * stride)}};
}

Square transposed(const Square& square) {
  const auto& [a0, a1, a2, a3] = square.row;
  const Quad b0 = __builtin_shufflevector(a0, a1, 0, 4, 2, 6);
  const Quad b1 = __builtin_shufflevector(a0, a1, 1, 5, 3, 7);
  const Quad b2 = __builtin_shufflevector(a2, a3, 0, 4, 2, 6);
  const Quad b3 = __builtin_shufflevector(a2, a3, 1, 5, 3, 7);
  return {{__builtin_shufflevector(b0, b2, 0, 1, 4, 5), __builtin_shufflevector(b1, b3, 0, 1, 4, 5),
           __builtin_shufflevector(b0, b2, 2, 3, 6, 7), __builtin_shufflevector(b1, b3, 2, 3, 6, 7)}};
}

/// a_c'x for four columns.
Quad four_dots(const double* a, Index stride, Index length, const double* x) {
  Square sums{};
  Index i = 0;
  for (; i + four <= length; i += four)
    for (Index c = 0; c < four; ++c) sums.row[c] += quad(a + c * stride + i) * quad(x + i);
  const Square turned = transposed(sums);
  Quad dots = (turned.row[0] + turned.row[1]) + (turned.row[2] + turned.row[3]);
  for (; i < length; ++i) dots += Quad{a[i], a[stride + i], a[2 * stride + i], a[3 * stride + i]} * x[i];
  return dots;
}

constexpr Index tile_side = 32;  // of matrices that are larger than the caches

/// What the averages of pairs of numbers show of P.
struct Extremes {
  Quad largest{}, asymmetry{};

  void see(const Quad& average, const Quad& difference) {
    const Quad size = average < 0 ? -average : average;
    const Quad distance = difference < 0 ? -difference : difference;
    largest = size > largest ? size : largest;
    asymmetry = distance > asymmetry ? distance : asymmetry;
  }
  [[nodiscard]] SymmetricPart result() const {
    SymmetricPart part;
    for (Index l = 0; l < four; ++l) {
      part.largest = std::max(part.largest, largest[l]);
      part.exact = part.exact && asymmetry[l] == 0;
    }
    return part;
  }
};

}  // namespace

void small_dots(double alpha, const double* A, Index stride, Index rows, Index columns, const double* x,
                double* y) {
  Index j = 0;
  for (; j + four <= columns; j += four) quad(y + j) += alpha * four_dots(A + j * stride, stride, rows, x);
  for (; j < columns; ++j) y[j] += alpha * four_dots(A + j * stride, 0, rows, x)[0];
}

// The inverse of a diagonal entry is ready before the sum that it is multiplied with; a quotient would have
// to wait for that sum.

void small_forward(const double* L, Index stride, Index n, double* x) {
  Index j = 0;
  for (; j + four <= n; j += four) {
    const double* a = L + j * stride;
    const double* b = a + stride;
    const double* c = b + stride;
    const double* d = c + stride;
    const double x0 = x[j] *= 1 / a[j];
    const double x1 = x[j + 1] = (x[j + 1] - x0 * a[j + 1]) * (1 / b[j + 1]);
    const double x2 = x[j + 2] = (x[j + 2] - x0 * a[j + 2] - x1 * b[j + 2]) * (1 / c[j + 2]);
    const double x3 = x[j + 3] = (x[j + 3] - x0 * a[j + 3] - x1 * b[j + 3] - x2 * c[j + 3]) * (1 / d[j + 3]);
    for (Index i = j + four; i < n; ++i) x[i] -= x0 * a[i] + x1 * b[i] + x2 * c[i] + x3 * d[i];
  }
  for (; j < n; ++j) {
    const double* a = L + j * stride;
    const double value = x[j] *= 1 / a[j];
    for (Index i = j + 1; i < n; ++i) x[i] -= value * a[i];
  }
}

void small_backward(const double* L, Index stride, Index n, double* x) {
  const Index whole = n / four * four;
  for (Index j = n - 1; j >= whole; --j) {
    const double* a = L + j * stride;
    double sum = x[j];
    for (Index i = j + 1; i < n; ++i) sum -= a[i] * x[i];
    x[j] = sum * (1 / a[j]);
  }
  for (Index j = whole - four; j >= 0; j -= four) {
    const double* a = L + j * stride;
    const double* b = a + stride;
    const double* c = b + stride;
    const double* d = c + stride;
    const Quad sums = quad(x + j) - four_dots(a + j + four, stride, n - j - four, x + j + four);
    const double x3 = x[j + 3] = sums[3] * (1 / d[j + 3]);
    const double x2 = x[j + 2] = (sums[2] - x3 * c[j + 3]) * (1 / c[j + 2]);
    const double x1 = x[j + 1] = (sums[1] - x3 * b[j + 3] - x2 * b[j + 2]) * (1 / b[j + 1]);
    x[j] = (sums[0] - x3 * a[j + 3] - x2 * a[j + 2] - x1 * a[j + 1]) * (1 / a[j]);
  }
}

void small_transpose(const double* source, Index stride, Index rows, Index columns, double* target,
                     Index target_stride) {
  const Index whole_rows = rows / four * four;
  const Index whole_columns = columns / four * four;
  for (Index j0 = 0; j0 < whole_columns; j0 += tile_side)
    for (Index i = 0; i < whole_rows; i += four)
      for (Index j = j0; j < std::min(j0 + tile_side, whole_columns); j += four) {
        const Square block = transposed(load(source + j * stride + i, stride));
        for (Index c = 0; c < four; ++c) quad(target + (i + c) * target_stride + j) = block.row[c];
      }
  for (Index j = 0; j < columns; ++j)
    for (Index i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      target[i * target_stride + j] = source[j * stride + i];
}

void small_scaled_rows(std::span<const double* const> rows, const double* scale, Index columns,
                       double* target, Index target_stride) {
  const auto count = std::ssize(rows);
  const Index whole = columns / four * four;
  for (Index j0 = 0; j0 < columns; j0 += tile_side)
    for (Index i = 0; i < count; i += four) {
      std::array<const double*, four> own{};  // behind the last row it stands again
      for (Index r = 0; r < four; ++r) own[at(r)] = rows[at(std::min(i + r, count - 1))];
      for (Index j = j0; j < std::min(j0 + tile_side, whole); j += four) {
        const Square block =
            transposed({quad(own[0] + j), quad(own[1] + j), quad(own[2] + j), quad(own[3] + j)});
        for (Index c = 0; c < four; ++c)
          quad(target + (j + c) * target_stride + i) = block.row[c] * scale[j + c];
      }
      for (Index j = std::max(j0, whole); j < std::min(j0 + tile_side, columns); ++j)
        quad(target + j * target_stride + i) = Quad{own[0][j], own[1][j], own[2][j], own[3][j]} * scale[j];
    }
}

SymmetricPart copy_symmetric_part(const double* P, Index n, double* target, Index target_stride) {
  const Index whole = n / four * four;
  Extremes extremes;
  for (Index j0 = 0; j0 < whole; j0 += tile_side)
    for (Index i0 = j0; i0 < whole; i0 += tile_side)
      for (Index j = j0; j < std::min(j0 + tile_side, whole); j += four)
        for (Index i = std::max(i0, j); i < std::min(i0 + tile_side, whole); i += four) {
          const Square below = load(P + j * n + i, n);
          const Square above = transposed(load(P + i * n + j, n));
          for (Index c = 0; c < four; ++c) {
            const Quad average = 0.5 * (below.row[c] + above.row[c]);
            extremes.see(average, below.row[c] - above.row[c]);
            quad(target + (j + c) * target_stride + i) = average;
          }
        }
  for (Index i = whole; i < n; ++i)
    for (Index j = 0; j <= i; ++j) {
      const double average = 0.5 * (P[j * n + i] + P[i * n + j]);
      extremes.see(Quad{average}, Quad{P[j * n + i] - P[i * n + j]});
      target[j * target_stride + i] = average;
    }
  return extremes.result();
}

bool small_partial_cholesky(double* T, Index stride, Index rows, Index columns, int threads) {
  for (Index j = 0; j < columns; ++j) clear_padding(T + j * stride + rows);
  const Index whole = columns / four * four;
  for (Index first = 0; first < whole; first += block) {
    const Index last = std::min(first + block, whole);
    BlockColumn column(T, stride, first, last - first);
    if (!column.factorise_square()) return false;
    const auto finish = [&](Index chunk) {
      const Index begin = last + chunk * block;
      column.finish(begin, std::min(begin + block, rows));
    };
    for_chunks((rows - last + block - 1) / block, threads, finish);
  }
  switch (columns - whole) {
    case 1:
      return factorise_last<1>(T, stride, rows, whole);
    case 2:
      return factorise_last<2>(T, stride, rows, whole);
    case 3:
      return factorise_last<3>(T, stride, rows, whole);
    default:
      return true;
  }
}

void small_gram(double alpha, const double* A, Index stride_A, Index rows, Index columns, double beta,
                double* C, Index stride_C, Index columns_C, int threads) {
  const auto write = [&](Index chunk) {
    const Index last = std::min(columns_C, (chunk + 1) * gram_block);
    for (Index first = chunk * gram_block; first < last; first += four) {
      switch (std::min(four, last - first)) {
        case 1:
          gram_columns<1>(alpha, A, stride_A, rows, columns, beta, C, stride_C, first);
          break;
        case 2:
          gram_columns<2>(alpha, A, stride_A, rows, columns, beta, C, stride_C, first);
          break;
        case 3:
          gram_columns<3>(alpha, A, stride_A, rows, columns, beta, C, stride_C, first);
          break;
        default:
          gram_columns<four>(alpha, A, stride_A, rows, columns, beta, C, stride_C, first);
      }
    }
  };
  for_chunks((columns_C + gram_block - 1) / gram_block, threads, write);
}

}  // namespace altdiff::detail
