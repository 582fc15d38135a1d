#pragma once

#include <altdiff/matrix.hpp>
#include <array>
#include <vector>

namespace altdiff::detail {

inline constexpr Index lanes = 4;

/// One number of each of four instances: what a vector register of x86-64-v3 holds.
using Lanes [[gnu::vector_size(lanes * sizeof(double))]] = double;

/// Four symmetric positive definite systems side by side: the square roots and divisions of a small
/// factorisation have long latencies, which four instances share. A lane with fewer rows is filled up with
/// the identity.
class LaneCholesky {
 public:
  explicit LaneCholesky(Index largest);

  [[nodiscard]] Index largest() const { return static_cast<Index>(x_.size()); }

  // The caller fills the lower triangle and the right-hand side of every lane, `size` rows each.
  [[nodiscard]] double& entry(Index i, Index j, Index lane) {
    return reinterpret_cast<double*>(row(i) + j)[lane];
  }
  [[nodiscard]] double& right_side(Index i, Index lane) {
    return reinterpret_cast<double*>(&at(x_, i))[lane];
  }

  /// Factorises and solves in place: `entry` then reads the factor, `right_side` the solution. A lane whose
  /// pivot falls below `smallest` times its diagonal has failed, and its numbers mean nothing.
  [[nodiscard]] std::array<bool, lanes> solve(Index size, double smallest);

 private:
  [[nodiscard]] Lanes* row(Index i) { return &factor_[static_cast<std::size_t>(i * (i + 1) / 2)]; }
  [[nodiscard]] static Lanes& at(std::vector<Lanes>& v, Index i) { return v[static_cast<std::size_t>(i)]; }
  void factorise_rows(Index first, Index count, double smallest, std::array<bool, lanes>& failed);
  void invert_pivot(Index i, const Lanes& diagonal, double smallest, std::array<bool, lanes>& failed);
  void substitute(Index size);

  std::vector<Lanes> factor_;   // lower triangle, row after row
  std::vector<Lanes> inverse_;  // of the diagonal
  std::vector<Lanes> x_;
};

}  // namespace altdiff::detail
