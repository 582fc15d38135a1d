#include "derivatives/settle_by_factors.hpp"

#include <algorithm>

#include "derivatives/barrier_weights.hpp"
#include "derivatives/constraint_normals.hpp"
#include "derivatives/least_nonnegative.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double balanced = 1e-10;  // of the gradient, relative

using Program = QuadraticProgram<SparseMatrix>;

/// The least multipliers (W3) of the rows that touch x.
std::optional<Point> least_multipliers(const Program& qp, const ActiveSet& rows, const RowLengths& lengths,
                                       const Point& v) {
  const ConstraintNormals touching(qp, rows);
  const Index p = qp.p();
  Vector units(p + touching.count());
  units << lengths.y, lengths.z(touching.G), lengths.box(touching.bounds);
  DenseMatrix normals(qp.n(), units.size());
  normals << DenseMatrix(qp.A).transpose(), touching.normals;
  std::vector<bool> free(at(units.size()));
  std::fill_n(free.begin(), p, true);
  for (std::size_t b = 0; b < touching.bounds.size(); ++b)
    free[at(p) + touching.G.size() + b] = qp.lb[touching.bounds[b]] == qp.ub[touching.bounds[b]];
  const Vector gradient = qp.P * v.x + qp.q;
  const auto lambda = least_nonnegative(normals * units.cwiseInverse().asDiagonal(), gradient, free,
                                        balanced * sizes_at(qp, v).gradient);
  if (!lambda) return {};
  const Vector found = lambda->cwiseQuotient(units);
  Point least{.x = v.x, .y = found.head(p), .z = Vector::Zero(qp.m()), .z_box = Vector::Zero(qp.n())};
  least.z(touching.G) = found.segment(p, std::ssize(touching.G));
  least.z_box(touching.bounds) = touching.sides.cwiseProduct(found.tail(touching.sides.size()));
  return least;
}

/// The least multipliers, with x and them corrected on the rows where they are positive. Empty if that leads
/// away from the solution.
std::optional<Point> with_least_multipliers(const Program& qp, const RowLengths& lengths, const Point& v,
                                            const ActiveSet& rows) {
  // Where rows are dependent, an engine's multipliers may be as large as they like.
  const Point x_alone{
      .x = v.x, .y = Vector::Zero(qp.p()), .z = Vector::Zero(qp.m()), .z_box = Vector::Zero(qp.n())};
  const double zero = zero_multiplier(qp, x_alone);
  auto least = least_multipliers(qp, rows, lengths, x_alone);
  if (!least) return {};
  ActiveSet S = strictly_active(qp, *least, rows, zero);
  NullSpace(qp, S, lengths).polish(qp, *least);
  orient_fixed(qp, *least, S);
  return mend(qp, *least, S) > 0 ? std::nullopt : least;
}

}  // namespace

void settle_by_factors(const Program& qp, const RowLengths& lengths, Point& v, ActiveSet& S) {
  ActiveSet rows = touching(qp, v, S);
  if (auto least = with_least_multipliers(qp, lengths, v, rows)) v = std::move(*least);
  rows = touching(qp, v, rows);  // an engine's multipliers may have spoken for rows that do not
  S = strictly_active(qp, v, rows, zero_multiplier(qp, v));
  orient_fixed(qp, v, S);
  const ActiveSet W{.z = rows.z - S.z, .box = (S.box.array() == 0).select(rows.box, 0.0)};
  add_barrier_weights(qp, lengths, W, S);
}

}  // namespace altdiff::detail
