#include "solve_carefully.hpp"

#include <memory>
#include <utility>

#include "derivatives/finish.hpp"
#include "engines/interior_point.hpp"
#include "problem/scaling.hpp"

namespace altdiff::detail {

namespace {
constexpr double target = 1e-12;
}

CarefulPoints solve_carefully(const QuadraticProgram<SparseMatrix>& qp, const Settings& settings) {
  const auto program = std::make_shared<const ScaledProgram<SparseMatrix>>(qp, ScalingStart::UnitRows);
  Settings quiet = settings;
  quiet.log = {};
  AugmentedSystem<SparseMatrix> system(program->qp.P, program->qp.A, program->qp.G);
  InteriorPoint<SparseMatrix> engine(program->qp, quiet, std::move(system));
  (void)engine.run(target);
  CarefulPoints found{.points = {program->to_user(engine.point())}, .iterations = engine.iterations()};
  if (const auto finished = finish(program, engine.point(), settings.gradient_tolerance, engine.system()))
    found.points.insert(found.points.begin(), program->to_user(finished->point));
  std::erase_if(found.points, [](const Point& v) { return !v.x.allFinite(); });
  return found;
}

}  // namespace altdiff::detail
