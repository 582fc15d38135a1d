#include "derivatives/finish.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_set_changes = 12;
constexpr RoundLimits to_machine_precision{.tolerance = 1e-15, .max_rounds = 12, .patience = 2};

/// Large penalties on the active rows make a round contract fast; how large is limited by what the
/// factorisation survives, and the condensed matrix squares the condition.
template <Matrix M>
struct FinishPenalty;
template <>
struct FinishPenalty<DenseMatrix> {
  static constexpr double sigma = 1e-7;
  static constexpr double row = 1e6;
};
template <>
struct FinishPenalty<SparseMatrix> {
  static constexpr double sigma = 1e-8;
  static constexpr double row = 1e8;
};

template <Matrix M>
Penalties penalties_on(const ActiveSet& S, Index p) {
  constexpr double R = FinishPenalty<M>::row;
  return {
      .sigma = FinishPenalty<M>::sigma, .A = Vector::Constant(p, R), .G = R * S.z, .box = R * S.box_mask()};
}

/// KKT conditions of (QP) with S as equalities, as a right-hand side of (A2).
template <Matrix M>
PointBlock data_of(const QuadraticProgram<M>& qp, const ActiveSet& S) {
  Vector bound = Vector::Zero(qp.n());
  for (Index j = 0; j < qp.n(); ++j)
    if (S.box[j] != 0) bound[j] = S.box[j] > 0 ? qp.ub[j] : qp.lb[j];
  return {.x = qp.q, .y = -qp.b, .z = -qp.h, .z_box = -bound};
}

}  // namespace

template <Matrix M>
std::optional<Finished<M>> finish(const std::shared_ptr<const ScaledProgram<M>>& program, const Point& start,
                                  double gradient_tolerance) {
  const auto& qp = program->qp;
  AugmentedSystem<M> system(qp.P, qp.A, qp.G);
  ActiveSet S = active_rows(qp, start);
  Point point = start;
  int fewest_changes = std::numeric_limits<int>::max();
  for (int change = 0, idle = 0; change <= max_set_changes; ++change) {
    if (!system.factorise(qp.P, qp.A, qp.G, penalties_on<M>(S, qp.p()))) return {};
    PointBlock t{.x = point.x, .y = point.y, .z = point.z, .z_box = point.z_box};
    alternating_rounds(qp, system, S, data_of(qp, S), t, to_machine_precision);
    point = {.x = t.x, .y = t.y, .z = t.z, .z_box = t.z_box};
    if (!point.x.allFinite()) return {};
    const int changes = mend(qp, point, S);
    if (changes == 0) {
      const RoundLimits limits{.tolerance = gradient_tolerance, .max_rounds = 20, .patience = 3};
      return Finished<M>{point, std::make_shared<Linearisation<M>>(program, std::move(system), S, limits)};
    }
    idle = changes < fewest_changes ? 0 : idle + 1;
    if (idle > 2) return {};
    fewest_changes = std::min(fewest_changes, changes);
  }
  return {};
}

template std::optional<Finished<DenseMatrix>> finish(const std::shared_ptr<const ScaledProgram<DenseMatrix>>&,
                                                     const Point&, double);
template std::optional<Finished<SparseMatrix>> finish(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double);

}  // namespace altdiff::detail
