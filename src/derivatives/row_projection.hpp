#pragma once

#include <altdiff/problem.hpp>

#include "derivatives/rounds.hpp"

namespace altdiff::detail {

/// The span of the rows C of A and S that do not give way, where they are linearly dependent. Limits outside
/// the span contradict each other, and multipliers outside it do nothing: C'lambda = 0. Taking both off makes
/// the solution of (A2) the one with the least multipliers, and the map to it symmetric.
template <Matrix M>
class RowProjection {
 public:
  /// `system` is one of the program's; its pattern is used, its factor is not.
  RowProjection(const QuadraticProgram<M>& qp, const ActiveSet& S, const AugmentedSystem<M>& system);

  /// v -= the solution lambda of  C'lambda = 0,  C x - lambda = -v,  on these rows                     (W5)
  void remove(PointBlock& v) const;

 private:
  QuadraticProgram<M> gram_;  // P = 0
  ActiveSet rows_;
  AugmentedSystem<M> system_;
  RoundCount count_{};
};

extern template class RowProjection<DenseMatrix>;
extern template class RowProjection<SparseMatrix>;

}  // namespace altdiff::detail
