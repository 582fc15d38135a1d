#include "derivatives/flat_directions.hpp"

#include <array>
#include <limits>

#include "derivatives/on_set.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

/// The solution of a round grows with 1 / sigma in N, and with it what rounding adds to the rows, times their
/// penalty: the ratio of the two is what limits the accuracy. But a direction in which P is not much larger
/// than sigma counts as flat, hence the smaller ones where the first does not settle.
constexpr std::array proximal{1e-3, 1e-5, 1e-7};
constexpr double row_penalty = 1e3;
constexpr int max_rounds = 30;
constexpr double settled = 1e-9;  // change by a round, relative: a second pass squares it

}  // namespace

template <Matrix M>
FlatDirections<M>::FlatDirections(const QuadraticProgram<M>& qp, const ActiveSet& S,
                                  const AugmentedSystem<M>& system)
    : qp_(qp), set_(S), system_(system) {
  double least = std::numeric_limits<double>::infinity();
  double best = proximal[0];
  for (const double sigma : proximal) {
    const double change = settle(sigma);
    if (change <= settled) return;
    if (change < least) {
      least = change;
      best = sigma;
    }
  }
  (void)settle(best);
}

/// Factorises with this sigma, and counts the rounds after which the part of a generic vector changes no
/// more; returns its last change, relative.
template <Matrix M>
double FlatDirections<M>::settle(double sigma) {
  count_.rounds = 0;
  if (!system_.factorise(
          qp_.P, qp_.A, qp_.G,
          penalties_on<M>(set_, qp_.p(), RoundWeights{.sigma = sigma, .row = row_penalty, .hold = true})))
    return std::numeric_limits<double>::infinity();
  const DenseMatrix generic = generic_block(qp_.n(), 1);
  DenseMatrix before = generic;
  for (;;) {
    ++count_.rounds;
    const DenseMatrix now = part(generic);
    const double change = norm(now - before) / norm(generic);
    if (!(change > settled) || count_.rounds == max_rounds) return change;
    before = now;
  }
}

template <Matrix M>
DenseMatrix FlatDirections<M>::part(const DenseMatrix& columns) const {
  PointBlock gradient = zeros(qp_, columns.cols());
  gradient.x = columns;
  PointBlock t;
  return -fixed_rounds(qp_, system_, set_, gradient, t, count_).x;  // (L2)
}

template class FlatDirections<DenseMatrix>;
template class FlatDirections<SparseMatrix>;

}  // namespace altdiff::detail
