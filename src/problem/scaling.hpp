#pragma once

#include <altdiff/problem.hpp>
#include <concepts>
#include <vector>

#include "problem/sparse_program.hpp"

namespace altdiff::detail {

/// What is scaled, and from where. Where x is not unique, its length counts, and x keeps the user's units.
enum class ScalingStart {
  Data,      ///< rows and columns, from the data
  UnitRows,  ///< from rows and a P whose largest number is one (S3): their units make no difference
  RowsOnly,  ///< these, and no column (S4)
};

/// The program that engines see: rows that hold for every x are gone, and rows and columns are brought to
/// norms near one.
///
///     x = D x_s,  y = E_a y_s / c,  z = E_g z_s / c,  z_box = z_box_s / (c D)                         (S1)
///     P_s = c D P D,  q_s = c D q,  A_s = E_a A D,  b_s = E_a b,  G_s = E_g G D,  h_s = E_g h,  lb_s = lb /
///     D
template <Matrix M>
struct ScaledProgram {
  QuadraticProgram<M> qp;
  Vector D, E_a, E_g;
  double c = 1;             ///< brings the largest number of P_s to one, or of q_s if P = 0
  std::vector<Index> rows;  ///< of the user's G, that are left
  Index m_user = 0;

  /// `user` is normalised. Ruiz equilibration of the matrix [P A' G'; A 0 0; G 0 0] (S2).
  explicit ScaledProgram(const QuadraticProgram<M>& user, ScalingStart start = ScalingStart::Data);

  /// The same, of dense matrices as sparse ones.
  explicit ScaledProgram(const ScaledProgram<DenseMatrix>& dense)
    requires std::same_as<M, SparseMatrix>
      : qp(sparse_program(dense.qp)),
        D(dense.D),
        E_a(dense.E_a),
        E_g(dense.E_g),
        c(dense.c),
        rows(dense.rows),
        m_user(dense.m_user) {}

  [[nodiscard]] Point from_user(const Point& v) const;  ///< (S1)
  template <class V>
  [[nodiscard]] BasicPoint<V> to_user(const BasicPoint<V>& v) const;  ///< (S1)

  /// A right-hand side of the KKT system (A2): its rows scale the other way round from its unknowns.
  [[nodiscard]] PointBlock right_side_from_user(const PointBlock& r) const;

 private:
  void start_at_unit_rows();
  void equilibrate();
  void temper_objective();
  void scale_vectors();
};

template <Matrix M>
template <class V>
BasicPoint<V> ScaledProgram<M>::to_user(const BasicPoint<V>& v) const {
  BasicPoint<V> user{.x = D.asDiagonal() * v.x,
                     .y = (E_a / c).asDiagonal() * v.y,
                     .z = V::Zero(m_user, v.z.cols()),
                     .z_box = (D * c).cwiseInverse().asDiagonal() * v.z_box};
  user.z(rows, Eigen::all) = (E_g / c).asDiagonal() * v.z;
  return user;
}

extern template struct ScaledProgram<DenseMatrix>;
extern template struct ScaledProgram<SparseMatrix>;

}  // namespace altdiff::detail
