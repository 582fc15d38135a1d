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
      known_rounds_(known.rounds),
      flat_(known_rounds_ == 0 && !unique_x(program_->qp, set_, system_, limits_)),
      regular_(!flat_ && !known.several_x),
      independent_(known.independent || independent_rows(program_->qp, set_, system_, limits_)) {}

template <Matrix M>
auto RoundsLinearisation<M>::prepared() const -> const Projections& {
  std::call_once(once_, [this] {
    if (!independent_) projections_.rows.emplace(program_->qp, set_, system_);
    if (flat_) projections_.flat.emplace(program_->qp, set_, system_);
    projections_.count = count_rounds();
  });
  return projections_;
}

template <Matrix M>
RoundCount RoundsLinearisation<M>::count_rounds() const {
  if (known_rounds_ > 0) return {.rounds = known_rounds_, .on_rows = at_vertex() ? rounds_on_rows : 0};
  // By a right-hand side that has a solution, in which every row and variable takes part.
  const auto& qp = program_->qp;
  RoundCount count;
  PointBlock t = zeros(qp, 1);
  count.rounds =
      std::max(1, alternating_rounds(qp, system_, set_, solvable_right_side(qp, set_), t, limits_).enough);
  PointBlock right_side = zeros(qp, 1);
  right_side.x = generic_block(qp.n(), 1);
  remove_flat_part(projections_, right_side.x);
  const PointBlock left = fixed_rounds(qp, system_, set_, right_side, t, count);
  if (std::max({norm(left.y), norm(left.z), norm(left.z_box)}) > leak_tol * norm(t.x))
    count.on_rows = rounds_on_rows;
  return count;
}

/// Whether independent rows leave x no direction.
template <Matrix M>
bool RoundsLinearisation<M>::at_vertex() const {
  return static_cast<double>(program_->qp.n() - program_->qp.p()) <= set_.z.sum() + set_.box_mask().sum();
}

template <Matrix M>
void RoundsLinearisation<M>::remove_flat_part(const Projections& by, DenseMatrix& columns) {
  if (by.flat) columns -= by.flat->part(columns);
}

template <Matrix M>
PointBlock RoundsLinearisation<M>::solve(const PointBlock& right_side) const {
  const Projections& by = prepared();
  PointBlock b = program_->right_side_from_user(right_side);
  if (by.rows) by.rows->remove(b);
  remove_flat_part(by, b.x);
  PointBlock t;
  fixed_rounds(program_->qp, system_, set_, b, t, by.count);
  remove_flat_part(by, t.x);
  if (by.rows) by.rows->remove(t);
  return program_->to_user(t);
}

template <Matrix M>
DenseMatrix RoundsLinearisation<M>::flat_part(const DenseMatrix& columns) const {
  const auto& flat = prepared().flat;
  return flat ? flat->part(columns) : DenseMatrix(0 * columns);
}

template <Matrix M>
ActiveSet in_user_rows(const ScaledProgram<M>& program, const ActiveSet& set) {
  ActiveSet user{.z = Vector::Zero(program.m_user), .box = set.box};
  user.z(program.rows) = set.z;
  return user;
}

template ActiveSet in_user_rows(const ScaledProgram<DenseMatrix>&, const ActiveSet&);
template ActiveSet in_user_rows(const ScaledProgram<SparseMatrix>&, const ActiveSet&);
template class RoundsLinearisation<DenseMatrix>;
template class RoundsLinearisation<SparseMatrix>;

}  // namespace altdiff::detail
