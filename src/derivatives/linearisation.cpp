#include "derivatives/linearisation.hpp"

#include <algorithm>

#include "derivatives/on_set.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double leak_tol = 1e-12;  // of u along active rows, relative to u
constexpr int rounds_on_rows = 2;

}  // namespace

template <Matrix M>
RoundsLinearisation<M>::RoundsLinearisation(std::shared_ptr<const ScaledProgram<M>> program,
                                            AugmentedSystem<M> system, ActiveSet set, RoundLimits limits,
                                            const KnownRows& known)
    : program_(std::move(program)),
      system_(std::move(system)),
      set_(std::move(set)),
      limits_(limits),
      regular_(unique_x(program_->qp, set_, system_, limits_)),
      independent_(known.independent || independent_rows(program_->qp, set_, system_, limits_)) {
  if (!independent_) rows_.emplace(program_->qp, set_, system_);
  if (!regular_) flat_.emplace(program_->qp, set_, system_);
  regular_ = regular_ && !known.several_x;
  count_rounds();
}

/// By a right-hand side that has a solution, in which every row and variable takes part.
template <Matrix M>
void RoundsLinearisation<M>::count_rounds() {
  const auto& qp = program_->qp;
  PointBlock t = zeros(qp, 1);
  count_.rounds =
      std::max(1, alternating_rounds(qp, system_, set_, solvable_right_side(qp, set_), t, limits_).enough);
  PointBlock right_side = zeros(qp, 1);
  right_side.x = generic_block(qp.n(), 1);
  remove_flat_part(right_side.x);
  const PointBlock left = fixed_rounds(qp, system_, set_, right_side, t, count_);
  if (std::max({norm(left.y), norm(left.z), norm(left.z_box)}) > leak_tol * norm(t.x))
    count_.on_rows = rounds_on_rows;
}

template <Matrix M>
void RoundsLinearisation<M>::remove_flat_part(DenseMatrix& columns) const {
  // Rounding errors are relative to sigma: what the first pass leaves, the second takes.
  for (int pass = 0; flat_ && pass < 2; ++pass) columns -= flat_->part(columns);
}

template <Matrix M>
PointBlock RoundsLinearisation<M>::solve_scaled(PointBlock b) const {
  if (rows_) rows_->remove(b);
  remove_flat_part(b.x);
  PointBlock t;
  fixed_rounds(program_->qp, system_, set_, b, t, count_);
  remove_flat_part(t.x);
  if (rows_) rows_->remove(t);
  return t;
}

template <Matrix M>
PointBlock RoundsLinearisation<M>::solve(const PointBlock& right_side) const {
  return program_->to_user(solve_scaled(program_->right_side_from_user(right_side)));
}

template <Matrix M>
DenseMatrix RoundsLinearisation<M>::flat_part(const DenseMatrix& columns) const {
  if (!flat_) return 0 * columns;
  const DenseMatrix part = flat_->part(columns);
  return part + flat_->part(columns - part);
}

template <Matrix M>
void RoundsLinearisation<M>::keep_turn(const Vector& x) {
  const PointBlock u = solve({.x = -x,
                              .y = DenseMatrix::Zero(program_->qp.p(), 1),
                              .z = DenseMatrix::Zero(program_->m_user, 1),
                              .z_box = DenseMatrix::Zero(x.size(), 1)});
  turn_ = Point{.x = u.x, .y = u.y, .z = u.z, .z_box = u.z_box};  // (L3)
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
