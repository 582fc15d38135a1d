#include <altdiff/derivatives.hpp>

#include "derivatives/of_solution.hpp"

namespace altdiff {

template <Matrix M>
Vector flat_part(const Solution<M>& solution, const Vector& v) {
  const auto& linearisation = detail::linearisation_of(solution);
  if (linearisation.turn() == nullptr) return Vector::Zero(v.size());
  return linearisation.flat_part(v);  // (L2)
}

template Vector flat_part(const Solution<DenseMatrix>&, const Vector&);
template Vector flat_part(const Solution<SparseMatrix>&, const Vector&);

}  // namespace altdiff
