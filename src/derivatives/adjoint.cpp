#include <altdiff/derivatives.hpp>

#include "derivatives/linearisation.hpp"
#include "derivatives/of_solution.hpp"

namespace altdiff {

namespace {

/// (left right' + right left') / 2 and its like, on the pattern of `like`.
DenseMatrix symmetric_outer(const DenseMatrix& /*like*/, const Vector& u, const Vector& x) {
  DenseMatrix half = 0.5 * u * x.transpose();
  return half + half.transpose();
}

SparseMatrix symmetric_outer(const SparseMatrix& like, const Vector& u, const Vector& x) {
  SparseMatrix result = like;
  for (Index j = 0; j < result.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(result, j); it; ++it)
      it.valueRef() = 0.5 * (u[it.row()] * x[j] + x[it.row()] * u[j]);
  return result;
}

/// v x' + y u' on the pattern of `like`.
DenseMatrix outer_sum(const DenseMatrix& /*like*/, const Vector& v, const Vector& x, const Vector& y,
                      const Vector& u) {
  DenseMatrix result = v * x.transpose();
  result.noalias() += y * u.transpose();
  return result;
}

SparseMatrix outer_sum(const SparseMatrix& like, const Vector& v, const Vector& x, const Vector& y,
                       const Vector& u) {
  SparseMatrix result = like;
  for (Index j = 0; j < result.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(result, j); it; ++it)
      it.valueRef() = v[it.row()] * x[j] + y[it.row()] * u[j];
  return result;
}

}  // namespace

template <Matrix M>
int derivative_rounds(const Solution<M>& solution) {
  return detail::linearisation_of(solution).rounds();
}

template <Matrix M>
QuadraticProgram<M> vjp(const QuadraticProgram<M>& qp, const Solution<M>& solution, const Point& bar) {
  const auto& linearisation = detail::linearisation_of(solution);
  const Point cotangent = detail::filled(bar, qp.n(), qp.p(), qp.m(), "_bar");
  const PointBlock t = linearisation.solve(
      {.x = cotangent.x, .y = cotangent.y, .z = cotangent.z, .z_box = cotangent.z_box});  // (V1)
  const auto u = t.x.col(0);
  const auto v = t.y.col(0);
  const auto r = t.z.col(0);
  const Vector r_box = t.z_box.col(0);
  const Vector side = linearisation.active().box;
  const auto& x = solution.x;
  QuadraticProgram<M> gradient{.P = symmetric_outer(qp.P, u, x),                                  // (V2)
                               .q = u,                                                            // (V3)
                               .G = outer_sum(qp.G, r, x, solution.z, u),                         // (V4)
                               .h = -r,                                                           // (V5)
                               .A = outer_sum(qp.A, v, x, solution.y, u),                         // (V6)
                               .b = -v,                                                           // (V7)
                               .lb = (side.array() < 0).select(-r_box, Vector::Zero(x.size())),   // (V8)
                               .ub = (side.array() > 0).select(-r_box, Vector::Zero(x.size()))};  // (V8)
  if (const Point* turn = linearisation.turn()) {
    const Vector f = linearisation.flat_part(cotangent.x);
    const Vector none_y = Vector::Zero(qp.p());
    const Vector none_z = Vector::Zero(qp.m());
    gradient.P += symmetric_outer(qp.P, f, turn->x);
    gradient.G += outer_sum(qp.G, none_z, x, turn->z, f);
    gradient.A += outer_sum(qp.A, none_y, x, turn->y, f);  // (L5)
  }
  return gradient;
}

template int derivative_rounds(const Solution<DenseMatrix>&);
template int derivative_rounds(const Solution<SparseMatrix>&);
template QuadraticProgram<DenseMatrix> vjp(const QuadraticProgram<DenseMatrix>&, const Solution<DenseMatrix>&,
                                           const Point&);
template QuadraticProgram<SparseMatrix> vjp(const QuadraticProgram<SparseMatrix>&,
                                            const Solution<SparseMatrix>&, const Point&);

}  // namespace altdiff
