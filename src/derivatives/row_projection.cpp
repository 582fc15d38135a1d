#include "derivatives/row_projection.hpp"

#include "derivatives/on_set.hpp"

namespace altdiff::detail {

namespace {

constexpr double proximal = 1e-8;  // rounds remove what it does
constexpr RoundLimits to_rounding{.tolerance = 1e-15, .max_rounds = 20, .patience = 2};

/// S without the rows that give way, all of which give way by one here.
ActiveSet hard_rows(const ActiveSet& S, Index p) {
  ActiveSet rows{.z = S.z, .box = S.box};
  if (S.soft()) {
    rows.z = (S.give.z.array() > 0).select(Vector::Zero(S.z.size()), S.z);
    rows.box = (S.give.box.array() > 0).select(Vector::Zero(S.box.size()), S.box);
  }
  rows.give = {.y = Vector::Ones(p), .z = Vector::Ones(S.z.size()), .box = Vector::Ones(S.box.size())};
  return rows;
}

}  // namespace

template <Matrix M>
RowProjection<M>::RowProjection(const QuadraticProgram<M>& qp, const ActiveSet& S,
                                const AugmentedSystem<M>& system)
    : gram_(qp), rows_(hard_rows(S, qp.p())), system_(system) {
  gram_.P *= 0;  // keeps its pattern
  const Penalties unit{.sigma = proximal, .A = Vector::Ones(qp.p()), .G = rows_.z, .box = rows_.box_mask()};
  if (!system_.factorise(gram_.P, gram_.A, gram_.G, unit)) return;  // then nothing is taken off
  PointBlock t = zeros(gram_, 1);
  const PointBlock limits = generic_limits(gram_, ActiveSet{.z = rows_.z, .box = rows_.box});
  count_.rounds = alternating_rounds(gram_, system_, rows_, limits, t, to_rounding).enough;
}

template <Matrix M>
void RowProjection<M>::remove(PointBlock& v) const {
  PointBlock limits = v;
  limits.x.setZero();
  PointBlock t;
  fixed_rounds(gram_, system_, rows_, limits, t, count_);
  v.y -= t.y;
  v.z -= t.z;
  v.z_box -= t.z_box;  // (W5)
}

template class RowProjection<DenseMatrix>;
template class RowProjection<SparseMatrix>;

}  // namespace altdiff::detail
