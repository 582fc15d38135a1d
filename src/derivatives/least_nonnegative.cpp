#include "derivatives/least_nonnegative.hpp"

#include <cmath>
#include <limits>

#include "engines/active_set/goldfarb_idnani.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "linalg/rank_revealing.hpp"

namespace altdiff::detail {

namespace {

constexpr double dependent_tol = 1e-13;   // pivot of a column, relative to the largest
constexpr double unmovable = 1e-12;       // squared length of a row in the null space of C
constexpr double dependent_rows = 2e-14;  // see GoldfarbIdnani
constexpr double infinite = std::numeric_limits<double>::infinity();

/// (AS3) for lambda_i >= 0: with Pi the projection on the null space of C, lambda = lambda_0 + Pi s, s >= 0,
/// and s_i is zero where lambda_i is not.
bool push_up(const DenseMatrix& Pi, const std::vector<Index>& signed_rows, double tiny, Vector& lambda) {
  const auto k = static_cast<Index>(signed_rows.size());
  const DenseMatrix M = Pi(signed_rows, signed_rows);
  const Vector t = lambda(signed_rows);
  const Vector zero = Vector::Zero(k);
  const Vector bottom = Vector::Constant(k, -tiny);
  const Vector none = Vector::Constant(k, infinite);
  Vector lengths(k);
  for (Index i = 0; i < k; ++i) lengths[i] = M(i, i) > unmovable ? std::sqrt(M(i, i)) : infinite;
  const DualProgram program{.k = k,
                            .M = M.data(),
                            .stride = k,
                            .t = t.data(),
                            .lower = zero.data(),
                            .upper = none.data(),
                            .bottom = bottom.data(),
                            .ceiling = none.data(),
                            .lengths = lengths.data(),
                            .size = lambda.norm()};
  DualState state;
  state.side.assign(at(k), 0);
  GoldfarbIdnani(k, k, dependent_rows).run(program, state);
  if (state.outcome != DualState::Outcome::Solved) return false;
  for (Index s = 0; s < state.count(); ++s)
    lambda -= state.lambda[at(s)] * Pi.col(signed_rows[at(state.row(s))]);
  return true;
}

}  // namespace

std::optional<Vector> least_nonnegative(const DenseMatrix& C, const Vector& g, const std::vector<bool>& free,
                                        double balanced) {
  if (C.cols() == 0) return norm(g) <= balanced ? std::optional(Vector()) : std::nullopt;
  const RankRevealing factors(C, dependent_tol);
  Vector lambda = factors.solve(-g);
  const double tiny = rounding * norm(lambda);
  std::vector<Index> signed_rows;
  for (Index i = 0; i < C.cols(); ++i)
    if (!free[at(i)]) signed_rows.push_back(i);
  if ((lambda(signed_rows).array() < -tiny).any()) {
    DenseMatrix Pi = -factors.pseudo_inverse() * C;
    Pi.diagonal().array() += 1;
    if (!push_up(0.5 * (Pi + Pi.transpose()), signed_rows, tiny, lambda)) return {};
    // On the rows that push, once more: Pi has the rounding of C+, however different the rows are in length.
    std::vector<Index> pushing;
    for (Index i = 0; i < C.cols(); ++i)
      if (free[at(i)] || lambda[i] > tiny) pushing.push_back(i);
    lambda.setZero();
    lambda(pushing) = RankRevealing(C(Eigen::all, pushing), dependent_tol).solve(-g);
  }
  lambda(signed_rows) = Vector(lambda(signed_rows)).cwiseMax(0);
  if (!(norm(C * lambda + g) <= balanced)) return {};
  return lambda;
}

}  // namespace altdiff::detail
