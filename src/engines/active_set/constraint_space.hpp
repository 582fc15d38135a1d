#pragma once

#include <altdiff/matrix.hpp>
#include <vector>

#include "linalg/products.hpp"
#include "linalg/small.hpp"

namespace altdiff::detail {

/// The matrices of one dense program where they lie in memory, row after row.
struct MatricesView {
  Index n = 0, m = 0, p = 0;
  const double* P = nullptr;
  const double* G = nullptr;
  const double* A = nullptr;

  using Rows = Eigen::Map<const DenseMatrix>;  // one column a row of the user's matrix
  [[nodiscard]] Rows P_rows() const { return {P, n, n}; }
  [[nodiscard]] Rows G_rows() const { return {G, n, m}; }
  [[nodiscard]] Rows A_rows() const { return {A, n, p}; }
};

/// A strictly convex program seen from its constraints C = [A; G; I_B], where B are the variables with a
/// bound. One sweep over [P C'; C 0] leaves all that instances with these matrices need:
///
///     P = L L',   Y = L^-1 C',   M = C P^-1 C' = Y'Y                                                  (AS1)
///     M_EE = L_E L_E',   W = M_IE L_E^-T,   M_I = M_II - W W'                                         (AS2)
///
/// with E the equalities and I the inequalities and bounds. Equalities that follow from others are left out
/// of E. The KKT system on E and an active set S of I is then solved in three steps, one column a right-hand
/// side, of which only the middle one knows S: reduce, solve with M_SS, expand.
class ConstraintSpace {
 public:
  /// How many numbers one space keeps; and those of M_I, which only the search for active sets reads.
  [[nodiscard]] static Index memory(Index n, Index p, Index k) {
    return padded(n + p + k) * n + padded(p + k) * p + k + n;
  }
  [[nodiscard]] static Index memory_of_M(Index k) { return padded(k) * k; }

  ConstraintSpace() = default;
  /// The memory belongs to the caller, and outlives the space; that of M_I the searches.
  ConstraintSpace(const MatricesView& data, const std::vector<Index>& bounded, double* memory, double* M,
                  int threads = 1);

  /// False: P is not positive definite, or so close to it that the numbers mean little; or there was no time.
  [[nodiscard]] bool usable() const { return usable_; }
  [[nodiscard]] bool symmetric() const { return symmetric_; }    ///< P as the user gave it
  [[nodiscard]] double largest_P() const { return largest_P_; }  ///< largest absolute value
  /// Of P, and of M_EE, relative to their diagonals.
  [[nodiscard]] double smallest_pivot() const { return smallest_pivot_; }
  [[nodiscard]] double equality_pivot() const { return equality_pivot_; }
  [[nodiscard]] Index inequalities() const { return k_; }
  [[nodiscard]] Index equalities() const { return p_; }  ///< those that do not follow from others

  /// M_I, column after column; `inequalities()` rows.
  [[nodiscard]] const double* M() const { return M_; }
  [[nodiscard]] Index M_stride() const { return padded(k_); }
  /// Root of the diagonal of M: the length of each row of G and I_B in the norm of P^-1. Infinite for a row
  /// that the equalities leave no room to move (a row of zeros among them): no multiplier can change it.
  [[nodiscard]] const double* lengths() const { return lengths_; }

  /// (a, c_E) -> (w, t_E), and the value t_I of the rows of I where S is empty:
  ///     w = L^-1 a,   t_E = L_E^-1 (Y_E'w - c_E),   t_I = Y_I'w - W t_E                               (AS4)
  /// c_E has a row for every equality of the user; those that were left out are passed over.
  void reduce(Block a, Block c_E, Block t_I) const;

  /// (w, t_E) and the multipliers v_I -> (u, v_E):
  ///     v_E = L_E^-T (t_E - W'v_I),   u = L^-T (w - Y_E v_E - Y_I v_I)                                (AS5)
  /// Equalities that were left out get the multiplier zero.
  void expand(Block w, Block t_E, const ConstBlock& v_I) const;

 private:
  using Columns = Eigen::Map<DenseMatrix, 0, Eigen::OuterStride<>>;
  using View = Eigen::Map<const DenseMatrix, 0, Eigen::OuterStride<>>;
  [[nodiscard]] Columns T() const { return {T_, n_ + p_ + k_, n_, Eigen::OuterStride<>(stride_T_)}; }
  [[nodiscard]] Columns equality_columns() const {
    return {E_, p_ + k_, p_, Eigen::OuterStride<>(stride_E_)};
  }
  [[nodiscard]] Columns inequality_columns() const { return {M_, k_, k_, Eigen::OuterStride<>(M_stride())}; }
  [[nodiscard]] Eigen::Map<Vector> scratch() const { return {lengths_ + k_, n_}; }
  [[nodiscard]] View L() const { return {T_, n_, n_, Eigen::OuterStride<>(stride_T_)}; }
  [[nodiscard]] View Y_E() const { return {T_ + n_, p_, n_, Eigen::OuterStride<>(stride_T_)}; }  // transposed
  [[nodiscard]] View Y_I() const {
    return {T_ + n_ + p_, k_, n_, Eigen::OuterStride<>(stride_T_)};
  }  // transposed
  [[nodiscard]] View L_E() const { return {E_, p_, p_, Eigen::OuterStride<>(stride_E_)}; }
  [[nodiscard]] View W() const { return {E_ + p_, k_, p_, Eigen::OuterStride<>(stride_E_)}; }

  void stack(const MatricesView& data, const std::vector<Index>& bounded);
  [[nodiscard]] bool sweep(int threads);
  /// False if a pivot falls below the share `smallest` of its diagonal, or there was no time.
  [[nodiscard]] bool eliminate_equalities(double smallest);

  Index n_ = 0, p_ = 0, k_ = 0, stride_T_ = 0, stride_E_ = 0;
  double* T_ = nullptr;  // [L; Y_E'; Y_I']
  double* E_ = nullptr;  // [L_E; W]
  double* M_ = nullptr;  // M_I
  double* lengths_ = nullptr;
  std::vector<Index> kept_{};  // rows of A in E; empty: all
  double largest_P_ = 0;
  double smallest_pivot_ = 0;
  double equality_pivot_ = 1;
  bool symmetric_ = true;
  bool usable_ = false;
};

}  // namespace altdiff::detail
