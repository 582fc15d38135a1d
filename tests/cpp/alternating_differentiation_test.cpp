#include <gtest/gtest.h>

#include <altdiff/altdiff.hpp>

#include "random_problems.hpp"

namespace altdiff::test {
namespace {

constexpr AlternatingSettings exact{.tolerance = 1e-11, .stopping = Stopping::Residual};

Constraints<DenseMatrix> constraints_of(const QuadraticProgram<>& qp) {
  return {.A = qp.A, .b = qp.b, .G = qp.G, .h = qp.h, .lb = qp.lb, .ub = qp.ub};
}

TEST(AlternatingDifferentiation, TheJacobianRecursionTendsToTheKktJacobian) {
  const auto qp = random_program(1, 8, 6, 3);
  const Quadratic<DenseMatrix> f{.P = qp.P, .q = qp.q};
  const auto result =
      alternating_differentiation(f, constraints_of(qp), {}, {.b = DenseMatrix::Identity(3, 3)}, exact);
  const auto solution = solve(qp);
  ASSERT_TRUE(result.converged);
  EXPECT_LT((result.x - solution.x).norm(), 1e-8);
  EXPECT_LT((result.jacobian - jacobian(qp, solution, Field::b)).norm(), 1e-7);
}

TEST(AlternatingDifferentiation, NativeBoundsGiveTheRoundsOfStackedRows) {
  const auto qp = random_program(2, 5, 3, 1, true);
  auto stacked = qp;
  stacked.G.resize(13, 5);
  stacked.G << qp.G, -DenseMatrix::Identity(5, 5), DenseMatrix::Identity(5, 5);
  stacked.h.resize(13);
  stacked.h << qp.h, -qp.lb, qp.ub;
  stacked.lb.resize(0);
  stacked.ub.resize(0);
  const Quadratic<DenseMatrix> f{.P = qp.P, .q = qp.q};
  const AlternatingSettings ten_rounds{.tolerance = 1e-300, .max_iterations = 10};
  const Quadratic<DenseMatrix>::Tangent dq{.q = DenseMatrix::Identity(5, 5)};
  const auto native = alternating_differentiation(f, constraints_of(qp), dq, {}, ten_rounds);
  const auto rows = alternating_differentiation(f, constraints_of(stacked), dq, {}, ten_rounds);
  EXPECT_LT((native.x - rows.x).norm(), 1e-13);
  EXPECT_LT((native.jacobian - rows.jacobian).norm(), 1e-13);
}

TEST(AlternatingDifferentiation, EntropyStaysInsideItsDomainAndMatchesCentralDifferences) {
  Random random(3);
  const Vector y = 3 * random.normals(6);
  const Constraints<DenseMatrix> c{
      .A = DenseMatrix::Ones(1, 6), .b = Vector::Ones(1), .ub = Vector::Constant(6, 0.4)};
  const auto at = [&](const Vector& logits) {
    return alternating_differentiation(Entropy<DenseMatrix>{.q = -logits}, c,
                                       {.q = DenseMatrix::Identity(6, 6)}, {}, exact);
  };
  const auto result = at(y);
  ASSERT_TRUE(result.converged);
  EXPECT_GT(result.x.minCoeff(), 0);
  EXPECT_NEAR(result.x.sum(), 1, 1e-9);
  const double t = 1e-5;
  for (Index j = 0; j < 6; ++j) {
    const Vector difference = (at(y + t * Vector::Unit(6, j)).x - at(y - t * Vector::Unit(6, j)).x) / (2 * t);
    EXPECT_LT((difference + result.jacobian.col(j)).lpNorm<Eigen::Infinity>(), 1e-6);
  }
}

TEST(AlternatingDifferentiation, TheTraceHasARowForEveryRound) {
  const auto qp = random_program(4, 6, 4, 2);
  const Quadratic<DenseMatrix> f{.P = qp.P, .q = qp.q};
  const auto result = alternating_differentiation(
      f, constraints_of(qp), {}, {.b = DenseMatrix::Identity(2, 2)}, {.tolerance = 1e-6, .trace = true});
  ASSERT_EQ(static_cast<int>(result.trace.size()), result.iterations);
  EXPECT_NEAR(result.trace.back().x_norm, result.x.norm(), 1e-15);
}

}  // namespace
}  // namespace altdiff::test
