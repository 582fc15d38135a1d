#include "solve_carefully.hpp"

#include <memory>
#include <utility>

#include "derivatives/finish.hpp"
#include "engines/interior_point.hpp"
#include "problem/residuals.hpp"
#include "problem/scaling.hpp"

namespace altdiff::detail {

namespace {
constexpr double target = 1e-12;
}

CarefulPoint solve_carefully(const QuadraticProgram<SparseMatrix>& qp, const Settings& settings) {
  const auto program = std::make_shared<const ScaledProgram<SparseMatrix>>(qp, ScalingStart::UnitRows);
  Settings quiet = settings;
  quiet.log = {};
  AugmentedSystem<SparseMatrix> system(program->qp.P, program->qp.A, program->qp.G);
  InteriorPoint<SparseMatrix> engine(program->qp, quiet, std::move(system));
  (void)engine.run(target);
  const CarefulPoint last{.point = program->to_user(engine.point()), .iterations = engine.iterations()};
  const auto finished = finish(program, engine.point(), settings.gradient_tolerance, engine.system());
  if (!finished) return last;
  const CarefulPoint better{.point = program->to_user(finished->point), .iterations = engine.iterations()};
  ResidualCheck<SparseMatrix> residuals(qp);
  return residuals(qp, better.point).worst() <= residuals(qp, last.point).worst() ? better : last;
}

}  // namespace altdiff::detail
