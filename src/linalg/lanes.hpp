#pragma once

#include <altdiff/matrix.hpp>
#include <array>

#include "linalg/memory.hpp"

namespace altdiff::detail {

inline constexpr Index lanes = 4;

/// One number of each of four instances: what a vector register of x86-64-v3 holds.
using Lanes [[gnu::vector_size(lanes * sizeof(double)), gnu::may_alias]] = double;

/// What comparing them gives: all bits of a number set, or none.
using LaneMask = decltype(Lanes{} < Lanes{});

/// `count` of them, not set.
template <Index count>
struct LaneArray {
  alignas(sizeof(Lanes)) std::array<double, static_cast<std::size_t>(count* lanes)> numbers;

  [[nodiscard]] Lanes* data() { return reinterpret_cast<Lanes*>(numbers.data()); }
};

/// Four matrices of the same size side by side, row after row without gaps. The square roots and divisions of
/// small factorisations have long latencies, which four instances share.
struct LaneMatrix {
  Lanes* data;
  Index rows, columns;

  LaneMatrix(Lanes* first, Index row_count, Index column_count)
      : data(first), rows(row_count), columns(column_count) {}

  [[nodiscard]] Lanes* row(Index i) const { return data + i * columns; }
  [[nodiscard]] LaneMatrix middle_rows(Index first, Index count) const {
    return {row(first), count, columns};
  }
};

/// target[i] = (sources[0][i], ..., sources[3][i])
void interleave(const std::array<const double*, lanes>& sources, Index count, Lanes* target);

/// T = [L; C L^-T] from T = [P; C], of whose leading square the lower triangle is read, and the inverse of
/// L's diagonal. Returns the smallest pivot of each lane relative to its diagonal: where it is not positive,
/// the lane's numbers mean nothing.
[[nodiscard]] Lanes partial_cholesky(const LaneMatrix& T, Lanes* inverse);

/// x = L^-1 x and x = L^-T x, with the leading square of L
void solve_lower(const LaneMatrix& L, const Lanes* inverse, Lanes* x);
void solve_upper(const LaneMatrix& L, const Lanes* inverse, Lanes* x);

/// C += alpha A B', of which only what is on and below the diagonal is meant; C has the rows of A, and as
/// many columns as B has rows.
void add_lower_product(double alpha, const LaneMatrix& A, const LaneMatrix& B, const LaneMatrix& C);

/// y += alpha A x and y += alpha A'x
void add_product(double alpha, const LaneMatrix& A, const Lanes* x, Lanes* y);
void add_transposed_product(double alpha, const LaneMatrix& A, const Lanes* x, Lanes* y);

/// Four symmetric positive definite systems side by side. A lane with fewer rows is filled up with the
/// identity.
class LaneCholesky {
 public:
  explicit LaneCholesky(Index largest);

  [[nodiscard]] Index largest() const { return largest_; }

  /// How many rows the next systems have.
  void resize(Index size) { size_ = size; }

  // The caller fills the lower triangle and the right-hand side of every lane.
  [[nodiscard]] double& entry(Index i, Index j, Index lane) {
    return memory_.data()[(i * size_ + j) * lanes + lane];
  }
  [[nodiscard]] double& right_side(Index i, Index lane) {
    return reinterpret_cast<double*>(right_sides() + i)[lane];
  }

  /// Factorises and solves in place: `entry` then reads the factor, `right_side` the solution. A lane whose
  /// pivot falls below `smallest` times its diagonal has failed, and its numbers mean nothing.
  [[nodiscard]] std::array<bool, lanes> solve(double smallest);

 private:
  [[nodiscard]] Lanes* numbers() const { return reinterpret_cast<Lanes*>(memory_.data()); }
  [[nodiscard]] LaneMatrix matrix() const { return {numbers(), size_, size_}; }
  [[nodiscard]] Lanes* inverse() const { return numbers() + largest_ * largest_; }  // of the diagonal
  [[nodiscard]] Lanes* right_sides() const { return inverse() + largest_; }

  Index largest_, size_ = 0;
  Memory memory_;
};

}  // namespace altdiff::detail
