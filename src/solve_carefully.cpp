#include "solve_carefully.hpp"

#include <memory>
#include <utility>

#include "engines/active_set/proximal.hpp"
#include "engines/interior_point.hpp"
#include "linalg/norms.hpp"
#include "linalg/watch.hpp"
#include "problem/rows.hpp"
#include "problem/scaling.hpp"

namespace altdiff::detail {

namespace {

constexpr double target = 1e-12;
constexpr Index small_enough = 300;  // rows and columns, for a dense look at a sparse program
constexpr double large_q = 100;      // beside a P of order one

/// The factor of the engine's objective: one over the largest number of q.
double cost_factor(const QuadraticProgram<SparseMatrix>& qp, CostUnit unit) {
  const double size = norm(qp.q);
  return unit == CostUnit::Objective && size > large_q ? 1 / size : 1;
}

Point in_units_of_program(Point v, double factor) {
  for (Vector* multipliers : {&v.y, &v.z, &v.z_box}) *multipliers /= factor;
  return v;
}

}  // namespace

CarefulPoints solve_carefully(const QuadraticProgram<SparseMatrix>& qp, const Settings& settings,
                              CostUnit unit) {
  if (out_of_time()) return {};
  const auto program = std::make_shared<const ScaledProgram<SparseMatrix>>(qp, ScalingStart::UnitRows);
  const double factor = cost_factor(program->qp, unit);
  if (unit == CostUnit::Objective && factor == 1) return {};
  QuadraticProgram<SparseMatrix> costs = program->qp;
  costs.P *= factor;
  costs.q *= factor;
  Settings quiet = settings;
  quiet.log = {};
  AugmentedSystem<SparseMatrix> system(costs.P, costs.A, costs.G);
  InteriorPoint<SparseMatrix> engine(costs, quiet, std::move(system));
  (void)engine.run(target);
  const Point point = in_units_of_program(engine.point(), factor);  // (S6)
  CarefulPoints found{.points = {program->to_user(point)}, .iterations = engine.iterations()};
  if (const auto finished = finish_in_time(program, point, settings.gradient_tolerance, engine.system()))
    found.points.insert(found.points.begin(), program->to_user(finished->point));
  std::erase_if(found.points, [](const Point& v) { return !v.x.allFinite(); });
  return found;
}

template <Matrix M>
std::optional<Finished<M>> finish_in_time(const std::shared_ptr<const ScaledProgram<M>>& program,
                                          const Point& start, double gradient_tolerance,
                                          AugmentedSystem<M>& system) {
  if (out_of_time()) return {};
  try {
    return finish(program, start, gradient_tolerance, system);
  } catch (const OutOfTime&) {
    return {};
  }
}

template std::optional<Finished<DenseMatrix>> finish_in_time(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Point&, double,
    AugmentedSystem<DenseMatrix>&);
template std::optional<Finished<SparseMatrix>> finish_in_time(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Point&, double,
    AugmentedSystem<SparseMatrix>&);

std::optional<Point> look_densely(const QuadraticProgram<SparseMatrix>& qp) {
  if (qp.n() + qp.m() + qp.p() > small_enough) return {};
  const DenseMatrix P(qp.P);
  const DenseMatrix G_rows(qp.G.transpose());
  const DenseMatrix A_rows(qp.A.transpose());
  const MatricesView matrices{
      .n = qp.n(), .m = qp.m(), .p = qp.p(), .P = P.data(), .G = G_rows.data(), .A = A_rows.data()};
  std::vector<Index> bounded;
  for (Index j = 0; j < qp.n(); ++j)
    if (!never_binds(qp.lb[j]) || !never_binds(qp.ub[j])) bounded.push_back(j);
  const Proximal found = solve_proximal({.matrices = matrices,
                                         .q = qp.q.data(),
                                         .b = qp.b.data(),
                                         .h = qp.h.data(),
                                         .lb = qp.lb.data(),
                                         .ub = qp.ub.data()},
                                        bounded);
  if (!found.found()) return {};
  return found.as_point();
}

}  // namespace altdiff::detail
