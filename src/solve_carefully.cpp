#include "solve_carefully.hpp"

#include <memory>
#include <utility>

#include "derivatives/finish.hpp"
#include "engines/interior_point.hpp"
#include "linalg/norms.hpp"
#include "problem/scaling.hpp"

namespace altdiff::detail {

namespace {

constexpr double target = 1e-12;
constexpr double large_q = 100;  // beside a P of order one

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
  if (const auto finished = finish(program, point, settings.gradient_tolerance, engine.system()))
    found.points.insert(found.points.begin(), program->to_user(finished->point));
  std::erase_if(found.points, [](const Point& v) { return !v.x.allFinite(); });
  return found;
}

}  // namespace altdiff::detail
