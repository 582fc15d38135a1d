#include "derivatives/least_multipliers.hpp"

#include "derivatives/on_set.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_set_changes = 30;
constexpr double proximal = 1e-8;   // rounds remove what it does
constexpr double balanced = 1e-10;  // of the gradient, relative
constexpr RoundLimits rounds{.tolerance = 1e-13, .max_rounds = 30, .patience = 3};

/// The rows whose multiplier would be positive, given the potential whose slopes the multipliers are: a row
/// on the edge stays where it is.
template <Matrix M>
ActiveSet supported(const QuadraticProgram<M>& qp, const ActiveSet& rows, const ActiveSet& last,
                    const Vector& potential, double tiny) {
  const Vector slope = qp.G * potential;
  const auto stays = [tiny](bool member, double value) { return member ? value > -tiny : value > tiny; };
  ActiveSet S = last;
  for (Index i = 0; i < qp.m(); ++i) S.z[i] = rows.z[i] != 0 && stays(last.z[i] != 0, slope[i]) ? 1 : 0;
  for (Index j = 0; j < qp.n(); ++j) {
    const bool free_sign = qp.lb[j] == qp.ub[j];
    const bool in = free_sign || stays(last.box[j] != 0, rows.box[j] * potential[j]);
    S.box[j] = in ? rows.box[j] : 0;
  }
  return S;
}

/// No negative multipliers, not even by rounding.
template <Matrix M>
Point cleaned(const QuadraticProgram<M>& qp, const ActiveSet& S, const Vector& x, const PointBlock& t) {
  Point v{.x = x, .y = t.y, .z = t.z.cwiseMax(0), .z_box = t.z_box};
  for (Index j = 0; j < qp.n(); ++j)
    if (qp.lb[j] != qp.ub[j] && S.box[j] * v.z_box[j] < 0) v.z_box[j] = 0;
  return v;
}

}  // namespace

template <Matrix M>
std::optional<Point> least_multipliers(const QuadraticProgram<M>& qp, const Point& v, const ActiveSet& rows,
                                       double tiny, AugmentedSystem<M>& system) {
  QuadraticProgram<M> flat = qp;
  flat.P *= 0;  // keeps its pattern
  PointBlock gradient = zeros(qp, 1);
  gradient.x = qp.P * v.x + qp.q;
  ActiveSet S = rows;
  S.give = {.y = Vector::Ones(qp.p()), .z = Vector::Ones(qp.m()), .box = Vector::Ones(qp.n())};
  for (int change = 0; change < max_set_changes; ++change) {
    const Penalties unit{.sigma = proximal, .A = Vector::Ones(qp.p()), .G = S.z, .box = S.box_mask()};
    if (!system.factorise(flat.P, qp.A, qp.G, unit)) return {};
    PointBlock t = zeros(qp, 1);
    const RoundReport report = alternating_rounds(flat, system, S, gradient, t, rounds);  // (W3)
    const ActiveSet next = supported(qp, rows, S, t.x, tiny);
    if (next.z == S.z && next.box == S.box) {
      if (!(report.residual <= balanced)) return {};
      return cleaned(qp, S, v.x, t);
    }
    S = next;
  }
  return {};
}

template std::optional<Point> least_multipliers(const QuadraticProgram<SparseMatrix>&, const Point&,
                                                const ActiveSet&, double, SparseSystem&);

}  // namespace altdiff::detail
