#include <gtest/gtest.h>

#include <altdiff/altdiff.hpp>

#include "random_problems.hpp"

namespace altdiff::test {
namespace {

TEST(WeakRow, GivesTheMidpointOfTheOneSidedDerivatives) {
  const QuadraticProgram<> qp{
      .P = DenseMatrix{{1.0}}, .q = Vector{{0.0}}, .G = DenseMatrix{{1.0}}, .h = Vector{{0.0}}};
  const auto dense = solve(qp);
  const auto thin = sparse(qp);
  const auto solution = solve(thin);
  EXPECT_TRUE(dense.degenerate && solution.degenerate);
  EXPECT_NEAR(jvp(qp, dense, {.q = Vector{{1.0}}}).x[0], -0.5, 1e-12);
  EXPECT_NEAR(jvp(thin, solution, {.q = Vector{{1.0}}}).x[0], -0.5, 1e-12);
}

}  // namespace
}  // namespace altdiff::test
