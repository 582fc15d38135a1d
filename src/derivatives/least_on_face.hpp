#pragma once

#include <optional>

#include "derivatives/finish.hpp"

namespace altdiff::detail {

/// The face of all solutions, as the equalities of a program with P = I: its solution is the least x, and it
/// has one whatever P was. Where P is definite, P x = P x_0 holds all variables that have a part in it; else
/// its rows are rows of A.
struct Face {
  QuadraticProgram<SparseMatrix> qp;
  ActiveSet rows;
  SparseMatrix pattern;  ///< zeros, in the place of P: an analysis that is known may serve

  /// `found` is any solution, finished, of `program`, which has the user's columns.
  Face(const QuadraticProgram<SparseMatrix>& program, const Finished<SparseMatrix>& found);
};

/// Least x on a set of rows, and projections on the directions that it leaves free, by a few rounds.
class LeastOnRows {
 public:
  explicit LeastOnRows(const Face& face);

  /// Factorises on T, which contains the face's rows. False if that fails.
  [[nodiscard]] bool use(const ActiveSet& T);
  /// Error of x where it is known: nearly dependent rows would hide it in small residuals.
  [[nodiscard]] double error_of_known() const;

  /// argmin 1/2 |x - v|^2 on the rows, with the multipliers.
  [[nodiscard]] PointBlock nearest(const Vector& v) const;
  /// How far t is from being that, relative to x.
  [[nodiscard]] double error(const PointBlock& t, const Vector& v) const;

  // As FlatDirections has them:

  [[nodiscard]] DenseMatrix part(const DenseMatrix& columns) const { return rough_part(columns); }
  [[nodiscard]] DenseMatrix rough_part(const DenseMatrix& columns) const;
  void polish(Point& solution) const { solution.x = nearest(solution.x).x; }

 private:
  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const;

  const Face& face_;
  ActiveSet T_;
  SparseSystem system_;
};

/// The solution of (L1), and the rows that it is on.
struct LeastOnFace {
  Vector x;
  ActiveSet T;
};

constexpr double exact_on_face = 1e-11;  ///< an error that leaves x enough digits

/// (L1), where all rows with a wrong sign enter and leave the set at once: few factorisations, and no
/// projections. Empty if the set does not settle, or x is not exact.
[[nodiscard]] std::optional<LeastOnFace> least_on_face(const Face& face, const ActiveSet& found,
                                                       LeastOnRows& rows);

}  // namespace altdiff::detail
