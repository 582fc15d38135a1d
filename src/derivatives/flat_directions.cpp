#include "derivatives/flat_directions.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "derivatives/on_set.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

/// The solution of a round grows with 1 / sigma in N, and with it what rounding adds to the rows, times their
/// penalty: the ratio of the two is what limits the accuracy. But a direction in which P is not much larger
/// than sigma counts as flat, hence smaller ones where the first does not settle, and a larger penalty for
/// rows that are nearly dependent.
constexpr std::array attempts{RoundWeights{.sigma = 1e-3, .row = 1e3, .hold = true},
                              RoundWeights{.sigma = 1e-3, .row = 1e5, .hold = true},
                              RoundWeights{.sigma = 1e-2, .row = 1e2, .hold = true},
                              RoundWeights{.sigma = 1e-5, .row = 1e3, .hold = true},
                              RoundWeights{.sigma = 1e-7, .row = 1e3, .hold = true}};
constexpr int max_rounds = 40;
constexpr RoundLimits to_rounding{.tolerance = 1e-14, .max_rounds = 12, .patience = 1};
constexpr double wanted = 1e-12;   // change by a round, relative
constexpr double hopeless = 1e-4;  // the same: a second pass squares it
constexpr int patience = 3;        // rounds in which the change falls by less than a fifth

}  // namespace

template <Matrix M>
FlatDirections<M>::FlatDirections(const QuadraticProgram<M>& qp, ActiveSet S, AugmentedSystem<M> system)
    : qp_(qp), set_(std::move(S)), system_(std::move(system)) {
  double least = std::numeric_limits<double>::infinity();
  RoundWeights best = attempts[0];
  for (const RoundWeights& weights : attempts) {
    const double change = settle(weights);
    if (change <= wanted) return;
    if (change < least) {
      least = change;
      best = weights;
    }
  }
  usable_ = settle(best) < hopeless;
}

/// Factorises with these weights, and counts the rounds after which the part of a generic vector changes no
/// more; returns its last change, relative.
template <Matrix M>
double FlatDirections<M>::settle(const RoundWeights& weights) {
  if (!system_.factorise(qp_.P, qp_.A, qp_.G, penalties_on<M>(set_, qp_.p(), weights)))
    return std::numeric_limits<double>::infinity();
  PointBlock gradient = zeros(qp_, 1);
  gradient.x = generic_block(qp_.n(), 1);
  DenseMatrix before = gradient.x;
  double change = std::numeric_limits<double>::infinity();
  double least = change;
  int idle = 0;
  count_.rounds = 0;
  PointBlock t;
  fixed_rounds(qp_, system_, set_, gradient, t, {.rounds = max_rounds}, [&](const PointBlock& left) {
    change = norm(left.x + before) / norm(gradient.x);
    before = -left.x;
    ++count_.rounds;
    idle = change < 0.8 * least ? 0 : idle + 1;
    least = std::min(least, change);
    return change > wanted && idle < patience;
  });
  return change;
}

template <Matrix M>
DenseMatrix FlatDirections<M>::part(const DenseMatrix& columns) const {
  const DenseMatrix rough = rough_part(columns);
  return rough + rough_part(columns - rough);
}

template <Matrix M>
DenseMatrix FlatDirections<M>::rough_part(const DenseMatrix& columns) const {
  PointBlock gradient = zeros(qp_, columns.cols());
  gradient.x = columns;
  PointBlock t;
  return -fixed_rounds(qp_, system_, set_, gradient, t, count_).x;  // (L2)
}

template <Matrix M>
void FlatDirections<M>::polish(Point& solution) const {
  PointBlock t{.x = solution.x, .y = solution.y, .z = solution.z, .z_box = solution.z_box};
  alternating_rounds(qp_, system_, set_, data_of(qp_, set_), t, to_rounding);
  if (t.x.allFinite()) solution.x = t.x;
}

template class FlatDirections<DenseMatrix>;
template class FlatDirections<SparseMatrix>;

}  // namespace altdiff::detail
