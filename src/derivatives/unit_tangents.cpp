#include "derivatives/unit_tangents.hpp"

#include <algorithm>

#include "linalg/pieces.hpp"
#include "problem/checks.hpp"

namespace altdiff::detail {

namespace {
constexpr double columns_work = 1e8;  // multiplications of a piece
constexpr Index fewest_columns =
    16;  // of a piece: fewer, and products of matrices become products of vectors
}  // namespace

Index entries_of(Index n, Index m, Index p, Field field) {
  switch (field) {
    case Field::b:
      return p;
    case Field::h:
      return m;
    case Field::q:
    case Field::lb:
    case Field::ub:
      return n;
    default:
      require(false, "jacobian is offered for q, h, b, lb and ub; use jvp or vjp for P, G and A");
      return 0;
  }
}

PointBlock unit_tangents(Index n, Index m, Index p, Field field, const Vector& side, Index first,
                         Index count) {
  PointBlock r{.x = DenseMatrix::Zero(n, count),
               .y = DenseMatrix::Zero(p, count),
               .z = DenseMatrix::Zero(m, count),
               .z_box = DenseMatrix::Zero(n, count)};
  for (Index c = 0; c < count; ++c) {
    const Index i = first + c;
    if (field == Field::q) r.x(i, c) = 1;
    if (field == Field::b) r.y(i, c) = -1;
    if (field == Field::h) r.z(i, c) = -1;
    if (field == Field::lb && side[i] < 0) r.z_box(i, c) = -1;
    if (field == Field::ub && side[i] > 0) r.z_box(i, c) = -1;
  }
  return r;
}

Index columns_together(Index n, Index m, Index p) {
  const double work = 2 * multiplications(n, n + m + p, 1);
  return std::max(fewest_columns, static_cast<Index>(columns_work / std::max(work, 1.0)));
}

}  // namespace altdiff::detail
