#include "linalg/small.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace altdiff::detail {

namespace {

constexpr Index four = 4;  // numbers in a vector register, and columns of a tile

using Quad [[gnu::vector_size(four * sizeof(double)), gnu::aligned(sizeof(double)), gnu::may_alias]] = double;

Quad& quad(double* p) { return *reinterpret_cast<Quad*>(p); }
const Quad& quad(const double* p) { return *reinterpret_cast<const Quad*>(p); }

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

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

/// Columns first .. first + columns of T; the earlier ones are done.
template <Index columns>
bool factorise_panel(double* T, Index stride, Index rows, Index first) {
  double* square = T + first * stride + first;
  for (Index t = 0; t < first; ++t) {
    const double* column = T + t * stride + first;
    for (Index c = 0; c < columns; ++c)
      for (Index i = c; i < columns; ++i) square[c * stride + i] -= column[i] * column[c];
  }
  Corner<columns> corner;
  if (!corner.factorise(square, stride)) return false;
  const double* pivots = T + first;
  for_tiles(first + columns, rows, [&](Index i, auto quads) {
    finish_rows<quads, columns>(T + first * stride + i, T + i, pivots, stride, first, corner);
  });
  return true;
}

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

bool small_partial_cholesky(double* T, Index stride, Index rows, Index columns) {
  for (Index first = 0; first < columns; first += four) {
    const auto panel = [&] {
      switch (std::min(four, columns - first)) {
        case 1:
          return factorise_panel<1>(T, stride, rows, first);
        case 2:
          return factorise_panel<2>(T, stride, rows, first);
        case 3:
          return factorise_panel<3>(T, stride, rows, first);
        default:
          return factorise_panel<four>(T, stride, rows, first);
      }
    };
    if (!panel()) return false;
  }
  return true;
}

void small_gram(double alpha, const double* A, Index stride_A, Index rows, Index columns, double beta,
                double* C, Index stride_C) {
  for (Index first = 0; first < rows; first += four) {
    switch (std::min(four, rows - first)) {
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
}

}  // namespace altdiff::detail
