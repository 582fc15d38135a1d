#include "derivatives/unit_tangents.hpp"

#include <algorithm>

#include "linalg/pieces.hpp"
#include "problem/checks.hpp"

namespace altdiff::detail {

namespace {
constexpr double columns_work = 2e8;  // multiplications of a piece
constexpr Index fewest_columns =
    16;  // of a piece: fewer, and products of matrices become products of vectors
}  // namespace

PointBlock unit_tangents(Index n, Index m, Index p, Field field, const Vector& side) {
  Index columns = n;
  if (field == Field::b) columns = p;
  if (field == Field::h) columns = m;
  PointBlock r{.x = DenseMatrix::Zero(n, columns),
               .y = DenseMatrix::Zero(p, columns),
               .z = DenseMatrix::Zero(m, columns),
               .z_box = DenseMatrix::Zero(n, columns)};
  switch (field) {
    case Field::q:
      r.x.setIdentity();
      break;
    case Field::b:
      r.y.diagonal().setConstant(-1);
      break;
    case Field::h:
      r.z.diagonal().setConstant(-1);
      break;
    case Field::lb:
      r.z_box.diagonal() = -(side.array() < 0).cast<double>();
      break;
    case Field::ub:
      r.z_box.diagonal() = -(side.array() > 0).cast<double>();
      break;
    default:
      require(false, "jacobian is offered for q, h, b, lb and ub; use jvp or vjp for P, G and A");
  }
  return r;
}

Index columns_together(Index n, Index m, Index p) {
  const double work = 2 * multiplications(n, n + m + p, 1);
  return std::max(fewest_columns, static_cast<Index>(columns_work / std::max(work, 1.0)));
}

PointBlock middle_columns(const PointBlock& r, Index first, Index count) {
  return {.x = r.x.middleCols(first, count),
          .y = r.y.middleCols(first, count),
          .z = r.z.middleCols(first, count),
          .z_box = r.z_box.middleCols(first, count)};
}

}  // namespace altdiff::detail
