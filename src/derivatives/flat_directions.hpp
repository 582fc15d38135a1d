#pragma once

#include <altdiff/problem.hpp>

#include "derivatives/on_set.hpp"

namespace altdiff::detail {

/// The directions N = {d : P d = 0, A d = 0, C_S d = 0} in which x may move without cost or contact. Where
/// there are any, (A2) has a solution only for gradients without a part in N, and x is determined up to N.
template <Matrix M>
class FlatDirections {
 public:
  /// `system` is one of the program's; its pattern is used, its factor is not.
  FlatDirections(const QuadraticProgram<M>& qp, ActiveSet S, AugmentedSystem<M> system);

  /// The orthogonal projection of each column on N: what rounds (A3) leave of it as a right-hand side (L2)
  [[nodiscard]] DenseMatrix part(const DenseMatrix& columns) const;
  /// The same in half the time: rounding errors are relative to sigma, and what this pass leaves, another
  /// takes.
  [[nodiscard]] DenseMatrix rough_part(const DenseMatrix& columns) const;

  /// x, of a solution that is less exact than it could be, once more on P x = P x_0 and the rows of the set.
  void polish(Point& solution) const;

  /// False: columns are so different in size that rounds do not get there, and parts mean little.
  [[nodiscard]] bool usable() const { return usable_; }

 private:
  [[nodiscard]] double settle(const RoundWeights& weights);

  const QuadraticProgram<M>& qp_;
  ActiveSet set_;
  AugmentedSystem<M> system_;
  RoundCount count_{};
  bool usable_ = true;
};

extern template class FlatDirections<DenseMatrix>;
extern template class FlatDirections<SparseMatrix>;

}  // namespace altdiff::detail
