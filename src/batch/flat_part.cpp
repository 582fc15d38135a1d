#include <altdiff/batch.hpp>

#include "batch/pullback.hpp"
#include "linalg/at.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/threads.hpp"

namespace altdiff {

DenseMatrix flat_part(const BatchSolution& solution, const DenseMatrix& v, const Missing& missing,
                      int num_threads) {
  DenseMatrix flat = DenseMatrix::Zero(v.rows(), v.cols());
  detail::parallel_for(v.cols(), detail::threads_for(num_threads), [&](Index i) {
    const auto& other = solution.linearisation->instances[detail::at(i)].other;
    if (other == nullptr || !detail::differentiable(solution, i, missing) || other->turn() == nullptr) return;
    flat.col(i) = other->flat_part(v.col(i));  // (L2)
  });
  return flat;
}

}  // namespace altdiff
