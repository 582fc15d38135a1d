#include "derivatives/degenerate.hpp"

#include <algorithm>

#include "derivatives/central_weights.hpp"
#include "derivatives/least_multipliers.hpp"
#include "derivatives/on_set.hpp"
#include "derivatives/row_projection.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double nearly = 1e-10;       // of the scale: a slack or a multiplier below it is zero
constexpr double floor = 1e-14;        // of it
constexpr double good_enough = 1e-12;  // (R4) that no other sigma need improve
constexpr RoundLimits as_it_is{};      // no rounds
constexpr double implied = 1e-7;       // of a row, outside the span of others
constexpr Index probes = 3;            // directions that tell whether a row is in that span
constexpr RoundLimits of_probes{.tolerance = 1e-15, .max_rounds = 12, .patience = 2};

/// Below these a slack and a multiplier are zero (W2).
struct Zero {
  double slack, multiplier;
};

template <Matrix M>
Zero zero_at(const QuadraticProgram<M>& qp, const Point& v) {
  const Vector Px = qp.P * v.x;
  const double gradient = std::max({norm(Px), norm(qp.q), norm(v.y), norm(v.z), norm(v.z_box)});
  return {.slack = std::max(nearly * norm(v.x), floor), .multiplier = std::max(nearly * gradient, floor)};
}

/// S and every other row that holds with equality.
template <Matrix M>
ActiveSet touching(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& S, const Zero& zero) {
  const Vector s = qp.h - qp.G * v.x;
  ActiveSet C{.z = S.z, .box = S.box};
  for (Index i = 0; i < qp.m(); ++i)
    if (s[i] <= zero.slack) C.z[i] = 1;
  for (Index j = 0; j < qp.n(); ++j) {
    if (C.box[j] != 0) continue;
    if (v.x[j] - qp.lb[j] <= zero.slack) C.box[j] = -1;
    if (qp.ub[j] - v.x[j] <= zero.slack) C.box[j] = 1;
  }
  return C;
}

/// Those of `rows` with a multiplier that is not zero, and variables that cannot move.
template <Matrix M>
ActiveSet strictly_active(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& rows,
                          const Zero& zero) {
  ActiveSet S{.z = rows.z, .box = rows.box};
  for (Index i = 0; i < qp.m(); ++i)
    if (v.z[i] <= zero.multiplier) S.z[i] = 0;
  for (Index j = 0; j < qp.n(); ++j)
    if (qp.lb[j] != qp.ub[j] && rows.box[j] * v.z_box[j] <= zero.multiplier) S.box[j] = 0;
  return S;
}

/// Takes the rows out of W that strictly active ones imply: along them no direction that those allow moves.
template <Matrix M>
void drop_implied(const QuadraticProgram<M>& qp, const ActiveSet& S, ActiveSet& W,
                  AugmentedSystem<M>& system) {
  M identity(qp.n(), qp.n());
  identity.setIdentity();
  QuadraticProgram<M> definite = qp;
  definite.P = qp.P + identity;
  if (!system.factorise(qp.P, qp.A, qp.G, penalties_on<M>(S, qp.p(), 1))) return;
  PointBlock right_side = zeros(qp, probes);
  right_side.x = generic_block(qp.n(), probes);
  PointBlock t = zeros(qp, probes);
  alternating_rounds(definite, system, S, right_side, t, of_probes);
  const DenseMatrix along = qp.G * t.x;
  for (Index i = 0; i < qp.m(); ++i)
    if (norm(along.row(i)) <= implied) W.z[i] = 0;
  for (Index j = 0; j < qp.n(); ++j)
    if (norm(t.x.row(j)) <= implied) W.box[j] = 0;
}

/// The least multipliers, if need be with x and them solved once more on the rows where they are positive.
/// Empty if that leads away from the solution.
template <Matrix M>
std::optional<Point> with_least_multipliers(const QuadraticProgram<M>& qp, const Point& v,
                                            const ActiveSet& rows, AugmentedSystem<M>& system) {
  const Zero zero = zero_at(qp, v);
  const auto least = least_multipliers(qp, v, rows, 0.01 * zero.multiplier, system);
  if (!least) return {};
  ActiveSet S = strictly_active(qp, *least, rows, zero);
  PointBlock t{.x = least->x, .y = least->y, .z = least->z, .z_box = least->z_box};
  const PointBlock data = data_of(qp, S);
  const bool all_push = S.z == rows.z && S.box == rows.box;
  if (!all_push || !(alternating_rounds(qp, system, S, data, t, as_it_is).residual <= good_enough)) {
    if (!solve_on(qp, S, data, good_enough, system, t) || !t.x.allFinite()) return {};
    // Rounding in limits that say the same may have moved the multipliers, by as much as penalties are large.
    const bool moved = t.y != least->y || t.z != S.z.cwiseProduct(least->z);
    if (moved) RowProjection<M>(qp, S, system).remove(t);
  }
  Point point{.x = t.x, .y = t.y, .z = t.z, .z_box = t.z_box};
  if (mend(qp, point, S) > 0) return {};
  return point;
}

}  // namespace

template <Matrix M>
bool has_weak_rows(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& S) {
  const Zero zero = zero_at(qp, v);
  const ActiveSet rows = touching(qp, v, S, zero);
  const ActiveSet strict = strictly_active(qp, v, rows, zero);
  return rows.z != strict.z || rows.box != strict.box;  // (W2)
}

template <Matrix M>
void settle_degenerate(const QuadraticProgram<M>& qp, Point& v, ActiveSet& S, AugmentedSystem<M>& system) {
  const ActiveSet before = S;
  const ActiveSet rows = touching(qp, v, S, zero_at(qp, v));
  if (auto least = with_least_multipliers(qp, v, rows, system)) v = std::move(*least);
  S = strictly_active(qp, v, rows, zero_at(qp, v));
  ActiveSet W{.z = rows.z - S.z, .box = rows.box - S.box};
  drop_implied(qp, S, W, system);
  const ActiveSet strict = S;
  if (add_central_weights(qp, W, S, system) && factorise_on(qp, S, system)) return;
  S = strict;  // weights that vanish: x may leave these rows without cost
  if (factorise_on(qp, S, system)) return;
  S = before;
  (void)factorise_on(qp, S, system);
}

template bool has_weak_rows(const QuadraticProgram<DenseMatrix>&, const Point&, const ActiveSet&);
template bool has_weak_rows(const QuadraticProgram<SparseMatrix>&, const Point&, const ActiveSet&);
template void settle_degenerate(const QuadraticProgram<SparseMatrix>&, Point&, ActiveSet&, SparseSystem&);

}  // namespace altdiff::detail
