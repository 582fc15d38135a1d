#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// How far rows give way: row i reads G_i x - give_i z_i = limit instead of G_i x = limit.
struct Compliance {
  Vector y{}, z{}, box{};
};

/// The rows that hold with equality, as factors: 1 in, 0 out. Bounds: +1 at ub, -1 at lb, 0 inside.
struct ActiveSet {
  Vector z;
  Vector box;
  Compliance give{};  ///< 1/w of rows that enter with a weight w (W1), else 0; empty: every row is strict

  [[nodiscard]] Vector box_mask() const { return box.cwiseAbs(); }
  [[nodiscard]] bool soft() const { return give.box.size() > 0; }
  /// Whether a bound that does not give way holds x_j.
  [[nodiscard]] bool holds(Index j) const { return box[j] != 0 && (!soft() || give.box[j] <= 0); }
  [[nodiscard]] bool has_bounds() const { return (box.array() != 0).any(); }
  [[nodiscard]] bool empty() const { return z.isZero(0) && box.isZero(0); }
};

/// Rows whose multiplier exceeds their slack (A1).
template <Matrix M>
[[nodiscard]] ActiveSet active_rows(const QuadraticProgram<M>& qp, const Point& v);

/// Takes rows with a negative multiplier out of the set and violated rows in; returns how many changed.
template <Matrix M>
int mend(const QuadraticProgram<M>& qp, const Point& v, ActiveSet& S);

/// A variable that cannot move is at the bound that it is pushed against, and at ub where none pushes: a
/// multiplier that is only rounding becomes zero.
template <Matrix M>
void orient_fixed(const QuadraticProgram<M>& qp, Point& v, ActiveSet& S);

/// What slacks and multipliers are compared with.
struct Sizes {
  Vector rows,
      bounds;       ///< of a slack: what the value of its row is the sum of, and a little of the largest x
  double gradient;  ///< of a multiplier: what the gradient of the Lagrangian is the sum of
};
template <Matrix M>
[[nodiscard]] Sizes sizes_at(const QuadraticProgram<M>& qp, const Point& v);

/// The rows that hold with equality, and those of S that push (W2).
template <Matrix M>
[[nodiscard]] ActiveSet touching(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& S);

/// A multiplier below it is zero (W2).
template <Matrix M>
[[nodiscard]] double zero_multiplier(const QuadraticProgram<M>& qp, const Point& v);

/// Those of `rows` with a multiplier above `zero`, and variables that cannot move.
template <Matrix M>
[[nodiscard]] ActiveSet strictly_active(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& rows,
                                        double zero);

/// min_i max(s_i, z_i), relative to these sizes, over the inequalities and bounds (G1); infinite if there are
/// none.
template <Matrix M>
[[nodiscard]] double margin(const QuadraticProgram<M>& qp, const Point& v);

extern template ActiveSet active_rows(const QuadraticProgram<DenseMatrix>&, const Point&);
extern template ActiveSet active_rows(const QuadraticProgram<SparseMatrix>&, const Point&);
extern template int mend(const QuadraticProgram<DenseMatrix>&, const Point&, ActiveSet&);
extern template int mend(const QuadraticProgram<SparseMatrix>&, const Point&, ActiveSet&);
extern template void orient_fixed(const QuadraticProgram<DenseMatrix>&, Point&, ActiveSet&);
extern template void orient_fixed(const QuadraticProgram<SparseMatrix>&, Point&, ActiveSet&);
extern template Sizes sizes_at(const QuadraticProgram<DenseMatrix>&, const Point&);
extern template Sizes sizes_at(const QuadraticProgram<SparseMatrix>&, const Point&);
extern template ActiveSet touching(const QuadraticProgram<DenseMatrix>&, const Point&, const ActiveSet&);
extern template ActiveSet touching(const QuadraticProgram<SparseMatrix>&, const Point&, const ActiveSet&);
extern template double zero_multiplier(const QuadraticProgram<DenseMatrix>&, const Point&);
extern template double zero_multiplier(const QuadraticProgram<SparseMatrix>&, const Point&);
extern template ActiveSet strictly_active(const QuadraticProgram<DenseMatrix>&, const Point&,
                                          const ActiveSet&, double);
extern template ActiveSet strictly_active(const QuadraticProgram<SparseMatrix>&, const Point&,
                                          const ActiveSet&, double);
extern template double margin(const QuadraticProgram<DenseMatrix>&, const Point&);
extern template double margin(const QuadraticProgram<SparseMatrix>&, const Point&);

}  // namespace altdiff::detail
