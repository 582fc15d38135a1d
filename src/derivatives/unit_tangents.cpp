#include "derivatives/unit_tangents.hpp"

#include "problem/checks.hpp"

namespace altdiff::detail {

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

}  // namespace altdiff::detail
