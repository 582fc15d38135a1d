#include "derivatives/finish.hpp"

#include <limits>

#include "derivatives/degenerate.hpp"
#include "derivatives/flat_descent.hpp"
#include "derivatives/on_set.hpp"
#include "derivatives/settle_by_factors.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_set_changes = 12;
constexpr int max_idle = 2;               // changes of the set without fewer wrong signs
constexpr double good_enough = 1e-12;     // relative residual that no other sigma need improve
constexpr double derivative_tol = 1e-14;  // (R4): a round more than most need costs little
constexpr Index tiny = 24;                // variables: orthogonal factors take no more time than rounds
constexpr RoundLimits to_machine_precision{.tolerance = 1e-15, .max_rounds = 3, .patience = 1};

/// The factor may have become a better one than that which found the point.
template <Matrix M>
void polish(const QuadraticProgram<M>& qp, const ActiveSet& S, const AugmentedSystem<M>& system,
            Point& point) {
  PointBlock t{.x = point.x, .y = point.y, .z = point.z, .z_box = point.z_box};
  alternating_rounds(qp, system, S, data_of(qp, S), t, to_machine_precision);
  if (t.x.allFinite()) point = {.x = t.x, .y = t.y, .z = t.z, .z_box = t.z_box};
}

template <Matrix M>
Finished<M> linearised(const std::shared_ptr<const ScaledProgram<M>>& program, const Point& point,
                       const ActiveSet& S, double gradient_tolerance, const KnownRows& known,
                       AugmentedSystem<M>& system) {
  return {.point = point,
          .linearisation = std::make_shared<RoundsLinearisation<M>>(
              program, std::move(system), S, derivative_limits(gradient_tolerance), known),
          .set = S};
}

/// The same where orthogonal factors can tell what depends on what.
Finished<SparseMatrix> settled_by_factors(const std::shared_ptr<const ScaledProgram<SparseMatrix>>& program,
                                          Point point, ActiveSet S) {
  const auto& qp = program->qp;
  const RowLengths lengths(*program);
  auto factors = S.soft() ? std::make_shared<const NullSpace>(qp, S, lengths)
                          : descend_flat_directions(qp, lengths, point, S);
  factors->polish(qp, point);  // whether a row is weak shows only then
  orient_fixed(qp, point, S);
  if (!factors->independent() || has_weak_rows(qp, point, S)) {
    settle_by_factors(qp, lengths, point, S);
    factors = std::make_shared<const NullSpace>(qp, S, lengths);
  }
  return {.point = std::move(point),
          .linearisation = std::make_shared<NullSpaceLinearisation>(program, std::move(factors), S),
          .set = std::move(S)};
}

/// The linearisation on S, or, where derivatives are a matter of convention, on what stands for it; there the
/// multipliers of `point` change with it.
Finished<SparseMatrix> settled(const std::shared_ptr<const ScaledProgram<SparseMatrix>>& program, Point point,
                               ActiveSet S, double gradient_tolerance, SparseSystem& system) {
  const auto& qp = program->qp;
  const RoundLimits limits = derivative_limits(gradient_tolerance);
  if (qp.n() <= tiny) return settled_by_factors(program, std::move(point), std::move(S));
  const bool weak = has_weak_rows(qp, point, S);
  if (const int rounds = weak ? 0 : rounds_if_regular(qp, S, system, limits); rounds > 0)
    return linearised(program, point, S, gradient_tolerance, {.independent = true, .rounds = rounds}, system);
  if (NullSpace::serves(qp)) return settled_by_factors(program, std::move(point), std::move(S));
  const Rows rows = weak ? Rows::Dependent : rows_with_any(qp, S, limits, system);
  if (rows == Rows::Dependent) settle_degenerate(qp, point, S, system);
  if (rows == Rows::NearlyDependent) polish(qp, S, system, point);
  return linearised(program, point, S, gradient_tolerance, {.independent = rows != Rows::Dependent}, system);
}

std::shared_ptr<const ScaledProgram<SparseMatrix>> sparse_of(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>& program) {
  return program;
}
std::shared_ptr<const ScaledProgram<SparseMatrix>> sparse_of(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>& program) {
  return std::make_shared<const ScaledProgram<SparseMatrix>>(*program);
}

/// Dense programs have the conventions of sparse ones, by (K2): (K1) squares the condition of the rows, and
/// cannot tell those that are nearly dependent from those that are.
Finished<DenseMatrix> settled(const std::shared_ptr<const ScaledProgram<DenseMatrix>>& program,
                              const Point& point, const ActiveSet& S, double gradient_tolerance,
                              DenseSystem& system) {
  const auto& qp = program->qp;
  const RoundLimits limits = derivative_limits(gradient_tolerance);
  if (qp.n() > tiny && !has_weak_rows(qp, point, S)) {
    const int rounds = rounds_if_regular(qp, S, system, limits);
    const bool large = qp.n() > NullSpace::largest;
    if (rounds > 0 || (large && rows_with_any(qp, S, limits, system) == Rows::Independent &&
                       unique_x(qp, S, system, limits)))
      return linearised(program, point, S, gradient_tolerance, {.independent = true, .rounds = rounds},
                        system);
  }
  const auto sparse = sparse_of(program);
  SparseSystem sparse_system(sparse->qp.P, sparse->qp.A, sparse->qp.G);
  if (auto found = finish(sparse, point, gradient_tolerance, sparse_system))
    return {.point = std::move(found->point),
            .linearisation = std::move(found->linearisation),
            .set = std::move(found->set)};
  (void)factorise_on(qp, S, system);
  return linearised(program, point, S, gradient_tolerance, {}, system);
}

}  // namespace

RoundLimits derivative_limits(double gradient_tolerance) {
  return {.tolerance = std::min(gradient_tolerance, derivative_tol), .max_rounds = 20, .patience = 3};
}

template <Matrix M>
std::optional<Finished<M>> finish(const std::shared_ptr<const ScaledProgram<M>>& program, const Point& start,
                                  double gradient_tolerance, AugmentedSystem<M>& system) {
  const auto& qp = program->qp;
  ActiveSet S = active_rows(qp, start);
  PointBlock t{.x = start.x, .y = start.y, .z = start.z, .z_box = start.z_box};
  int fewest_changes = std::numeric_limits<int>::max();
  for (int change = 0, idle = 0; change <= max_set_changes && idle <= max_idle; ++change) {
    if (!solve_on(qp, S, data_of(qp, S), good_enough, system, t) || !t.x.allFinite()) return {};
    Point point{.x = t.x, .y = t.y, .z = t.z, .z_box = t.z_box};
    orient_fixed(qp, point, S);
    const int changes = mend(qp, point, S);
    if (changes == 0) return settled(program, point, S, gradient_tolerance, system);
    idle = changes < fewest_changes ? 0 : idle + 1;
    fewest_changes = std::min(fewest_changes, changes);
  }
  return {};
}

template <Matrix M>
std::shared_ptr<const Linearisation> linearise(const std::shared_ptr<const ScaledProgram<M>>& program,
                                               const Point& point, double gradient_tolerance,
                                               AugmentedSystem<M>& system) {
  const auto& qp = program->qp;
  const ActiveSet S = active_rows(qp, point);
  if (qp.n() <= NullSpace::largest) return std::make_shared<NullSpaceLinearisation>(sparse_of(program), S);
  if (!factorise_on(qp, S, system)) return {};
  return std::make_shared<RoundsLinearisation<M>>(program, std::move(system), S,
                                                  derivative_limits(gradient_tolerance));
}

template std::optional<Finished<DenseMatrix>> finish(const std::shared_ptr<const ScaledProgram<DenseMatrix>>&,
                                                     const Point&, double, AugmentedSystem<DenseMatrix>&);
template std::optional<Finished<SparseMatrix>> finish(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);
template std::shared_ptr<const Linearisation> linearise(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Point&, double,
    AugmentedSystem<DenseMatrix>&);
template std::shared_ptr<const Linearisation> linearise(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);

}  // namespace altdiff::detail
