#include "derivatives/least_by_factors.hpp"

#include <algorithm>

#include "derivatives/constraint_normals.hpp"
#include "derivatives/least_nonnegative.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double balanced = 1e-9;  // of x in flat directions, relative
constexpr double held_tol = 1e-9;  // of a multiplier of (L1), relative to x

constexpr double smallest_x = 1e-4;  // that they are relative to
constexpr double implied = 1e-7;     // part of a row that has a say in flat directions

}  // namespace

FlatByFactors::FlatByFactors(const QuadraticProgram<SparseMatrix>& qp, const ActiveSet& S)
    : qp_(qp), system_(qp, S, RowLengths(qp, Vector::Ones(qp.n()))) {}

void FlatByFactors::polish(Point& solution) const {
  Point point = solution;
  system_.polish(qp_, point);
  solution.x = point.x;
}

void share_among_touching(const QuadraticProgram<SparseMatrix>& qp, const FlatByFactors& flat,
                          const ActiveSet& S, const Vector& x, ActiveSet& T) {
  const Point at_x{
      .x = x, .y = Vector::Zero(qp.p()), .z = Vector::Zero(qp.m()), .z_box = Vector::Zero(qp.n())};
  ActiveSet others = touching(qp, at_x, ActiveSet{.z = Vector::Zero(qp.m()), .box = Vector::Zero(qp.n())});
  others.z = (S.z.array() == 0).select(others.z, 0.0);
  others.box = (S.box.array() == 0).select(others.box, 0.0);
  const ConstraintNormals rows(qp, others);
  DenseMatrix parts =
      flat.system().flat(rows.normals * rows.normals.colwise().norm().cwiseInverse().asDiagonal());
  const Vector g = flat.system().flat(x);
  const double size = std::max(norm(x), smallest_x);
  for (DenseMatrix::ColXpr part : parts.colwise())
    if (part.norm() <= implied) part.setZero();
  const auto lambda = least_nonnegative(parts, g, std::vector<bool>(at(parts.cols())), balanced * size);
  if (!lambda) return;
  T = S;
  const double zero = held_tol * size;
  for (Index k = 0; k < parts.cols(); ++k)
    if ((*lambda)[k] > zero) rows.member(k, T.z, T.box) = rows.value(k);
}

}  // namespace altdiff::detail
