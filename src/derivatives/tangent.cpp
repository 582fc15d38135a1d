#include <algorithm>
#include <altdiff/derivatives.hpp>

#include "derivatives/of_solution.hpp"
#include "derivatives/unit_tangents.hpp"
#include "linalg/pieces.hpp"
#include "linalg/watch.hpp"

namespace altdiff {

namespace {

using detail::require;

template <class Array>
void require_shape(const Array& X, Index rows, Index columns, const std::string& name) {
  require(X.rows() == rows && X.cols() == columns, "the tangent of ", name, " must have shape (", rows, ", ",
          columns, "), got (", X.rows(), ", ", X.cols(), ")");
}

/// The KKT conditions differentiated at fixed x, y, z: the right-hand side of (A2).
template <Matrix M>
PointBlock right_side(const QuadraticProgram<M>& qp, const Solution<M>& v, const QuadraticProgram<M>& dot,
                      const Vector& side) {
  PointBlock r{.x = DenseMatrix::Zero(qp.n(), 1),
               .y = DenseMatrix::Zero(qp.p(), 1),
               .z = DenseMatrix::Zero(qp.m(), 1),
               .z_box = DenseMatrix::Zero(qp.n(), 1)};
  const auto given = [](const auto& field) { return field.size() > 0; };
  if (given(dot.P)) {
    require_shape(dot.P, qp.n(), qp.n(), "P");
    r.x += 0.5 * (dot.P * v.x);  // only the symmetric part counts
    r.x += 0.5 * (dot.P.transpose() * v.x);
  }
  if (given(dot.q)) {
    require_shape(dot.q, qp.n(), 1, "q");
    r.x += dot.q;
  }
  if (given(dot.A)) {
    require_shape(dot.A, qp.p(), qp.n(), "A");
    r.x += dot.A.transpose() * v.y;
    r.y += dot.A * v.x;
  }
  if (given(dot.b)) {
    require_shape(dot.b, qp.p(), 1, "b");
    r.y -= dot.b;
  }
  if (given(dot.G)) {
    require_shape(dot.G, qp.m(), qp.n(), "G");
    r.x += dot.G.transpose() * v.z;
    r.z += dot.G * v.x;
  }
  if (given(dot.h)) {
    require_shape(dot.h, qp.m(), 1, "h");
    r.z -= dot.h;
  }
  if (given(dot.lb)) {
    require_shape(dot.lb, qp.n(), 1, "lb");
    r.z_box -= (side.array() < 0).select(dot.lb, Vector::Zero(qp.n()));
  }
  if (given(dot.ub)) {
    require_shape(dot.ub, qp.n(), 1, "ub");
    r.z_box -= (side.array() > 0).select(dot.ub, Vector::Zero(qp.n()));
  }
  return r;  // (T1)
}

/// What a change of the matrices does to the gradient at `turn`.
template <Matrix M>
DenseMatrix turned_gradient(const QuadraticProgram<M>& qp, const Point& turn,
                            const QuadraticProgram<M>& dot) {
  Vector g = Vector::Zero(qp.n());
  if (dot.P.size() > 0) {
    g += 0.5 * (dot.P * turn.x);
    g += 0.5 * (dot.P.transpose() * turn.x);
  }
  if (dot.A.size() > 0) g += dot.A.transpose() * turn.y;
  if (dot.G.size() > 0) g += dot.G.transpose() * turn.z;
  return g;
}

}  // namespace

template <Matrix M>
Point jvp(const QuadraticProgram<M>& qp, const Solution<M>& solution, const QuadraticProgram<M>& dot) {
  const auto& linearisation = detail::linearisation_of(solution);
  const Vector side = linearisation.active().box;
  const PointBlock t = linearisation.solve(right_side(qp, solution, dot, side));
  Point change{.x = t.x.col(0), .y = t.y.col(0), .z = t.z.col(0), .z_box = t.z_box.col(0)};
  if (const Point* turn = linearisation.turn())
    change.x += linearisation.flat_part(turned_gradient(qp, *turn, dot));  // (L4)
  return change;
}

template <Matrix M>
DenseMatrix jacobian(const QuadraticProgram<M>& qp, const Solution<M>& solution, Field field) {
  const auto& linearisation = detail::linearisation_of(solution);
  const Vector side = linearisation.active().box;
  const Index together = detail::columns_together(qp.n(), qp.m(), qp.p());
  DenseMatrix x(qp.n(), detail::entries_of(qp.n(), qp.m(), qp.p(), field));
  for (Index first = 0; first < x.cols(); first += together) {
    const Index count = std::min(together, x.cols() - first);
    detail::check_interrupt(detail::multiplications(qp.n(), qp.n(), count));
    x.middleCols(first, count) =
        linearisation.solve(detail::unit_tangents(qp.n(), qp.m(), qp.p(), field, side, first, count)).x;
  }
  return x;
}

template Point jvp(const QuadraticProgram<DenseMatrix>&, const Solution<DenseMatrix>&,
                   const QuadraticProgram<DenseMatrix>&);
template Point jvp(const QuadraticProgram<SparseMatrix>&, const Solution<SparseMatrix>&,
                   const QuadraticProgram<SparseMatrix>&);
template DenseMatrix jacobian(const QuadraticProgram<DenseMatrix>&, const Solution<DenseMatrix>&, Field);
template DenseMatrix jacobian(const QuadraticProgram<SparseMatrix>&, const Solution<SparseMatrix>&, Field);

}  // namespace altdiff
