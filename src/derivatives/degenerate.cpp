#include "derivatives/degenerate.hpp"

#include <algorithm>

#include "derivatives/central_weights.hpp"
#include "derivatives/least_multipliers.hpp"
#include "derivatives/on_set.hpp"
#include "derivatives/row_projection.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double good_enough = 1e-12;  // (R4) that no other sigma need improve
constexpr RoundLimits as_it_is{};      // no rounds
constexpr double implied = 1e-7;       // of a row, outside the span of others
constexpr Index probes = 3;            // directions that tell whether a row is in that span
constexpr RoundLimits of_probes{.tolerance = 1e-15, .max_rounds = 12, .patience = 2};

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
  // Where rows are dependent, an engine's multipliers may be as large as they like.
  Point x_alone = v;
  for (Vector* multipliers : {&x_alone.y, &x_alone.z, &x_alone.z_box}) multipliers->setZero();
  const double zero = zero_multiplier(qp, x_alone);
  const auto least = least_multipliers(qp, v, rows, 0.01 * zero, system);
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
  orient_fixed(qp, point, S);
  if (mend(qp, point, S) > 0) return {};
  return point;
}

}  // namespace

template <Matrix M>
bool has_weak_rows(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& S) {
  const ActiveSet rows = touching(qp, v, S);
  const ActiveSet strict = strictly_active(qp, v, rows, zero_multiplier(qp, v));
  return S.z != strict.z || S.box != strict.box || rows.z != strict.z || rows.box != strict.box;  // (W2)
}

template <Matrix M>
void settle_degenerate(const QuadraticProgram<M>& qp, Point& v, ActiveSet& S, AugmentedSystem<M>& system) {
  const ActiveSet before = S;
  ActiveSet rows = touching(qp, v, S);
  if (auto least = with_least_multipliers(qp, v, rows, system)) {
    v = std::move(*least);
    rows = touching(qp, v, rows);  // x has more digits now
  }
  S = strictly_active(qp, v, rows, zero_multiplier(qp, v));
  orient_fixed(qp, v, S);
  ActiveSet W{.z = rows.z - S.z, .box = (S.box.array() == 0).select(rows.box, 0.0)};
  if (!W.empty()) drop_implied(qp, S, W, system);
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
