#pragma once

#include <altdiff/matrix.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "linalg/small.hpp"

namespace altdiff::detail {

inline constexpr double rounding = 1e-13;  // of a row's value, relative to what it is the sum of

/// What is left of one instance in constraint space: the rows of I have the value v = t - M lambda, and
///
///     lower <= v <= upper,   lambda_i > 0 only where v_i = upper_i,   lambda_i < 0 only where v_i = lower_i
///                                                                                                     (AS3)
/// A row with lower = upper holds always, with a multiplier of any sign.
struct DualProgram {
  Index k = 0;
  const double* M = nullptr;  // k x k, symmetric
  Index stride = 0;           // from column to column
  const double* t = nullptr;
  const double* lower = nullptr;
  const double* upper = nullptr;
  const double* bottom = nullptr;   // lower and upper with what rounding may add to them: a value beyond
  const double* ceiling = nullptr;  // violates the row
  const double* lengths = nullptr;  // of the rows; infinite: no multiplier can move this row
  double size = 0;                  // of the solution in the norm of P: what rounding errors are relative to

  [[nodiscard]] double entry(Index i, Index j) const { return M[j * stride + i]; }
  [[nodiscard]] const double* column(Index j) const { return M + j * stride; }
  [[nodiscard]] bool fixed(Index i) const { return lower[i] == upper[i]; }
  [[nodiscard]] double limit(Index i, std::int8_t side) const { return side > 0 ? upper[i] : lower[i]; }
  /// +1 where v exceeds upper, -1 where it is below lower, else 0.
  [[nodiscard]] std::int8_t violated_side(Index i, double v) const {
    return static_cast<std::int8_t>(static_cast<int>(v > ceiling[i]) - static_cast<int>(v < bottom[i]));
  }
};

/// How far rounding may carry the value of a row of the given length beyond its limit; `size` as above.
[[nodiscard]] inline double rounding_of_row(double size, double length, double limit) {
  return rounding * (size * length + std::abs(limit));
}

/// The active set of one instance, and the factor of M_SS that goes with it.
struct DualState {
  enum class Outcome : std::uint8_t {
    Solved,      ///< (AS3) holds to rounding
    Infeasible,  ///< lambda proves that no x satisfies the constraints
    Stalled,     ///< begun, or given up: too many changes, or numbers too ill conditioned
  };
  std::vector<std::int8_t> side{};  // of every row: +1 at upper, -1 at lower, 0 not active
  std::vector<Index> rows{};        // S: where side is not 0
  std::vector<double> lambda{};     // on S
  std::vector<double> factor{};     // Cholesky factor of M_SS: lower triangle, columns `stride()` apart
  int changes = 0;                  // of the active set
  Outcome outcome = Outcome::Stalled;

  [[nodiscard]] Index count() const { return static_cast<Index>(rows.size()); }
  [[nodiscard]] Index row(Index s) const { return rows[static_cast<std::size_t>(s)]; }
  [[nodiscard]] Index stride() const { return padded(count()); }
  [[nodiscard]] double pivot(std::size_t s) const {
    return factor[s * static_cast<std::size_t>(stride()) + s];
  }
  /// S from `side`.
  void list_rows();
  /// Solves M_SS r = r in place.
  void solve(double* r) const;
};

/// What derivatives need of a solved instance's set, in little memory: a batch keeps thousands.
class KeptSet {
 public:
  KeptSet() = default;
  explicit KeptSet(const DualState& state);

  [[nodiscard]] Index count() const { return static_cast<Index>(rows_.size()); }
  [[nodiscard]] Index row(Index s) const { return std::abs(rows_[static_cast<std::size_t>(s)]) - 1; }
  [[nodiscard]] int side(Index s) const { return rows_[static_cast<std::size_t>(s)] > 0 ? 1 : -1; }
  /// Solves M_SS r = r in place.
  void solve(double* r) const;

 private:
  std::vector<std::int32_t> rows_{};  // i + 1 at upper, -(i + 1) at lower
  std::vector<double> factor_{};      // the lower triangle, column after column
};

/// v -= factor M_{.,rows} weights
void subtract_columns(const DualProgram& program, const std::vector<Index>& rows, double factor,
                      const double* weights, double* v);

/// v = t - M_{.,S} lambda_S
void row_values(const DualProgram& program, const DualState& state, double* v);

/// Fresh factorisation of M_SS; false if it is not safely positive definite.
[[nodiscard]] bool factorise_rows(const DualProgram& program, DualState& state);

/// The same, and lambda_S.
[[nodiscard]] bool solve_on_rows(const DualProgram& program, DualState& state);

/// Whether lambda has the sign that its side asks for, to rounding; `largest` is that of lambda times length.
[[nodiscard]] inline bool right_sign(const DualProgram& program, Index row, std::int8_t side, double lambda,
                                     double largest) {
  return program.fixed(row) || side * lambda * program.lengths[row] >= -rounding * (program.size + largest);
}

/// Largest of |lambda_i| times the length of its row.
[[nodiscard]] double largest_multiplier(const DualProgram& program, const DualState& state);

}  // namespace altdiff::detail
