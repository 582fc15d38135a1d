#include <altdiff/batch.hpp>

#include "linalg/at.hpp"

namespace altdiff {

Answer answer_of(const BatchSolution& batch, Index instance) {
  const auto& [x, y, z, z_box] = batch.point;
  const std::size_t i = detail::at(instance);
  Answer answer;
  answer.x = x.col(instance);
  answer.y = y.col(instance);
  answer.z = z.col(instance);
  answer.z_box = z_box.rows() > 0 ? Vector(z_box.col(instance)) : Vector::Zero(x.rows());
  answer.status = batch.status[i];
  answer.objective = batch.objective[instance];
  answer.iterations = static_cast<int>(batch.iterations[i]);
  answer.primal_residual = batch.primal_residual[instance];
  answer.dual_residual = batch.dual_residual[instance];
  answer.duality_gap = batch.duality_gap[instance];
  answer.degenerate = batch.degenerate[i] != 0;
  answer.unique = batch.unique[i] != 0;
  answer.margin = batch.margin[instance];
  return answer;
}

}  // namespace altdiff
