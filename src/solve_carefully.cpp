#include "solve_carefully.hpp"

#include <memory>
#include <utility>

#include "engines/interior_point.hpp"
#include "linalg/watch.hpp"
#include "problem/scaling.hpp"

namespace altdiff::detail {

namespace {
constexpr double target = 1e-12;
}

CarefulPoints solve_carefully(const QuadraticProgram<SparseMatrix>& qp, const Settings& settings) {
  if (out_of_time()) return {};
  const auto program = std::make_shared<const ScaledProgram<SparseMatrix>>(qp, ScalingStart::UnitRows);
  Settings quiet = settings;
  quiet.log = {};
  AugmentedSystem<SparseMatrix> system(program->qp.P, program->qp.A, program->qp.G);
  InteriorPoint<SparseMatrix> engine(program->qp, quiet, std::move(system));
  (void)engine.run(target);
  CarefulPoints found{.points = {program->to_user(engine.point())}, .iterations = engine.iterations()};
  if (const auto finished =
          finish_in_time(program, engine.point(), settings.gradient_tolerance, engine.system()))
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

}  // namespace altdiff::detail
