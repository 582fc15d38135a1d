#include "derivatives/finish.hpp"

#include <array>
#include <limits>

namespace altdiff::detail {

namespace {

constexpr int max_set_changes = 12;
constexpr int max_idle = 2;            // changes of the set without fewer wrong signs
constexpr double good_enough = 1e-12;  // relative residual that no other sigma need improve
constexpr RoundLimits to_machine_precision{.tolerance = 1e-15, .max_rounds = 12, .patience = 2};

/// Large penalties on the active rows make a round contract fast; how large is limited by what the
/// factorisation survives, and the condensed matrix squares the condition. sigma is tried in this order:
/// small enough for most; smaller where P is so ill conditioned that sigma drowns it; larger where rounding
/// has made P indefinite.
template <Matrix M>
struct FinishPenalty;
template <>
struct FinishPenalty<DenseMatrix> {
  static constexpr std::array sigmas{1e-7, 1e-10, 1e-12, 1e-6, 1e-5};
  static constexpr double row = 1e6;
};
template <>
struct FinishPenalty<SparseMatrix> {
  static constexpr std::array sigmas{1e-8, 1e-10, 1e-12, 1e-6, 1e-5};
  static constexpr double row = 1e8;
};

RoundLimits limits(double gradient_tolerance) {
  return {.tolerance = gradient_tolerance, .max_rounds = 20, .patience = 3};
}

template <Matrix M>
Penalties penalties_on(const ActiveSet& S, Index p, double sigma) {
  constexpr double R = FinishPenalty<M>::row;
  return {.sigma = sigma, .A = Vector::Constant(p, R), .G = R * S.z, .box = R * S.box_mask()};
}

/// KKT conditions of (QP) with S as equalities, as a right-hand side of (A2).
template <Matrix M>
PointBlock data_of(const QuadraticProgram<M>& qp, const ActiveSet& S) {
  Vector bound = Vector::Zero(qp.n());
  for (Index j = 0; j < qp.n(); ++j)
    if (S.box[j] != 0) bound[j] = S.box[j] > 0 ? qp.ub[j] : qp.lb[j];
  return {.x = qp.q, .y = -qp.b, .z = -qp.h, .z_box = -bound};
}

/// Solves the KKT conditions on S from `t`, with the first sigma that gets there, else the one that got
/// closest; that one's factor is left in `system`. False if none could be factorised.
template <Matrix M>
bool solve_on(const QuadraticProgram<M>& qp, const ActiveSet& S, AugmentedSystem<M>& system, PointBlock& t) {
  const PointBlock data = data_of(qp, S);
  const PointBlock start = t;
  double best = std::numeric_limits<double>::infinity();
  double best_sigma = 0;
  const auto attempt = [&](double sigma) {
    PointBlock trial = start;
    if (!system.factorise(qp.P, qp.A, qp.G, penalties_on<M>(S, qp.p(), sigma))) return best;
    const double error = alternating_rounds(qp, system, S, data, trial, to_machine_precision).residual;
    if (error < best) {
      best = error;
      best_sigma = sigma;
      t = std::move(trial);
    }
    return error;
  };
  for (const double sigma : FinishPenalty<M>::sigmas)
    if (attempt(sigma) <= good_enough) return true;
  return best_sigma > 0 && system.factorise(qp.P, qp.A, qp.G, penalties_on<M>(S, qp.p(), best_sigma));
}

}  // namespace

template <Matrix M>
std::optional<Finished<M>> finish(const std::shared_ptr<const ScaledProgram<M>>& program, const Point& start,
                                  double gradient_tolerance, AugmentedSystem<M>& system) {
  const auto& qp = program->qp;
  ActiveSet S = active_rows(qp, start);
  PointBlock t{.x = start.x, .y = start.y, .z = start.z, .z_box = start.z_box};
  int fewest_changes = std::numeric_limits<int>::max();
  for (int change = 0, idle = 0; change <= max_set_changes && idle <= max_idle; ++change) {
    if (!solve_on(qp, S, system, t) || !t.x.allFinite()) return {};
    const Point point{.x = t.x, .y = t.y, .z = t.z, .z_box = t.z_box};
    const int changes = mend(qp, point, S);
    if (changes == 0) {
      return Finished<M>{point, std::make_shared<RoundsLinearisation<M>>(program, std::move(system), S,
                                                                         limits(gradient_tolerance))};
    }
    idle = changes < fewest_changes ? 0 : idle + 1;
    fewest_changes = std::min(fewest_changes, changes);
  }
  return {};
}

template <Matrix M>
std::shared_ptr<const Linearisation<M>> linearise(const std::shared_ptr<const ScaledProgram<M>>& program,
                                                  const Point& point, double gradient_tolerance,
                                                  AugmentedSystem<M>& system) {
  const auto& qp = program->qp;
  const ActiveSet S = active_rows(qp, point);
  for (const double sigma : FinishPenalty<M>::sigmas)
    if (system.factorise(qp.P, qp.A, qp.G, penalties_on<M>(S, qp.p(), sigma)))
      return std::make_shared<RoundsLinearisation<M>>(program, std::move(system), S,
                                                      limits(gradient_tolerance));
  return {};
}

template std::optional<Finished<DenseMatrix>> finish(const std::shared_ptr<const ScaledProgram<DenseMatrix>>&,
                                                     const Point&, double, AugmentedSystem<DenseMatrix>&);
template std::optional<Finished<SparseMatrix>> finish(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);
template std::shared_ptr<const Linearisation<DenseMatrix>> linearise(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Point&, double,
    AugmentedSystem<DenseMatrix>&);
template std::shared_ptr<const Linearisation<SparseMatrix>> linearise(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);

}  // namespace altdiff::detail
