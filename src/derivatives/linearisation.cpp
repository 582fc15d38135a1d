#include "derivatives/linearisation.hpp"

#include "derivatives/on_set.hpp"

namespace altdiff::detail {

namespace {

constexpr double inconsistent =
    1e-6;  // a relative residual that rounds cannot get below: (A2) has no solution

PointBlock zeros_like(const PointBlock& v) {
  return {.x = DenseMatrix::Zero(v.x.rows(), v.x.cols()),
          .y = DenseMatrix::Zero(v.y.rows(), v.y.cols()),
          .z = DenseMatrix::Zero(v.z.rows(), v.z.cols()),
          .z_box = DenseMatrix::Zero(v.z_box.rows(), v.z_box.cols())};
}

}  // namespace

template <Matrix M>
RoundsLinearisation<M>::RoundsLinearisation(std::shared_ptr<const ScaledProgram<M>> program,
                                            AugmentedSystem<M> system, ActiveSet set, RoundLimits limits,
                                            bool known_independent)
    : program_(std::move(program)),
      system_(std::move(system)),
      set_(std::move(set)),
      limits_(limits),
      regular_(unique_x(program_->qp, set_, system_, limits_)),
      independent_(known_independent || independent_rows(program_->qp, set_, system_, limits_)) {}

template <Matrix M>
typename RoundsLinearisation<M>::Counted RoundsLinearisation<M>::solve_counted(
    const PointBlock& right_side) const {
  PointBlock b = program_->right_side_from_user(right_side);
  PointBlock t = zeros_like(b);
  RoundLimits first = limits_;
  if (!regular_ && first.flat_rounds > 0) first.max_rounds = first.flat_rounds;
  const RoundReport report = alternating_rounds(program_->qp, system_, set_, b, t, first);
  int rounds = report.rounds;
  if (!(report.residual <= std::max(inconsistent, limits_.tolerance))) {
    b.x += report.remainder.x;
    b.y += report.remainder.y;
    b.z += report.remainder.z;
    b.z_box += report.remainder.z_box;
    t = zeros_like(b);
    rounds += alternating_rounds(program_->qp, system_, set_, b, t, limits_).rounds;
  }
  return {std::move(t), rounds};
}

template <Matrix M>
PointBlock RoundsLinearisation<M>::solve(const PointBlock& right_side) const {
  return program_->to_user(solve_counted(right_side).t);
}

template <Matrix M>
int RoundsLinearisation<M>::rounds(const PointBlock& right_side) const {
  return solve_counted(right_side).rounds;
}

template <Matrix M>
ActiveSet RoundsLinearisation<M>::active() const {
  ActiveSet user{.z = Vector::Zero(program_->m_user), .box = set_.box};
  user.z(program_->rows) = set_.z;
  return user;
}

template class RoundsLinearisation<DenseMatrix>;
template class RoundsLinearisation<SparseMatrix>;

}  // namespace altdiff::detail
