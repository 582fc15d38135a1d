#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff {

/// minimise  1/2 x'P x + q'x   subject to  A x = b,  G x <= h,  lb <= x <= ub                        (QP)
///
/// Every constraint block may be left out. h, lb and ub may hold infinities: that row does not exist.
/// Only the symmetric part of P counts. The derivative of a number with respect to a program is again a
/// program: `vjp` returns one.
template <Matrix M = DenseMatrix>
struct QuadraticProgram {
  M P{};        ///< n x n, positive semidefinite
  Vector q{};   ///< n
  M G{};        ///< m x n
  Vector h{};   ///< m
  M A{};        ///< p x n
  Vector b{};   ///< p
  Vector lb{};  ///< n, or empty: no lower bounds
  Vector ub{};  ///< n, or empty: no upper bounds

  [[nodiscard]] Index n() const { return q.size(); }
  [[nodiscard]] Index m() const { return h.size(); }
  [[nodiscard]] Index p() const { return b.size(); }
};

/// The fields of a program, in the order of the interface.
enum class Field { P, q, G, h, A, b, lb, ub };

/// A value for x and one for each multiplier: an iterate, a solution, a cotangent or a tangent.
/// Stationarity reads P x + q + A'y + G'z + z_box = 0.
template <class V>
struct BasicPoint {
  V x{};      ///< n
  V y{};      ///< p, of A x = b
  V z{};      ///< m, of G x <= h; not negative
  V z_box{};  ///< n, of the bounds; positive at ub, negative at lb
};
using Point = BasicPoint<Vector>;
using PointBlock = BasicPoint<DenseMatrix>;  ///< one column a direction

}  // namespace altdiff
