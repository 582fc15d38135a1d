#include <gtest/gtest.h>

#include <altdiff/altdiff.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "problem/certificates.hpp"
#include "problem/checks.hpp"
#include "problem/residuals.hpp"
#include "random_problems.hpp"

namespace altdiff::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The message of the error that `call` throws; empty if it throws none.
template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

TEST(Solve, FindsTheKktPointOfRandomPrograms) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const auto qp = random_program(seed, 3 + seed % 9, seed % 13, seed % 3, seed % 2 == 1);
    const auto solution = solve(qp);
    ASSERT_EQ(solution.status, Status::Solved) << seed;
    const auto user = detail::normalised(qp);
    EXPECT_TRUE(detail::ResidualCheck<DenseMatrix>(user)(user, solution).below(1e-8)) << seed;
  }
}

TEST(Solve, GivesTheSameForDenseAndSparse) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const auto qp = random_program(seed, 4 + seed % 7, seed % 11, seed % 3, seed % 2 == 0);
    const auto dense = solve(qp);
    const auto same = solve(sparse(qp));
    EXPECT_LT((dense.x - same.x).cwiseAbs().maxCoeff(), 1e-9) << seed;
    EXPECT_LT((dense.z - same.z).lpNorm<Eigen::Infinity>(), 1e-8) << seed;
  }
}

TEST(Solve, ReadsDesignatedInitialisersAsInTheGuide) {
  const DenseMatrix P = DenseMatrix::Identity(2, 2);
  const Vector q = Vector::Constant(2, -1);
  const DenseMatrix G = DenseMatrix::Ones(1, 2);
  const Vector h = Vector::Ones(1);
  const QuadraticProgram qp{.P = P, .q = q, .G = G, .h = h};
  const auto solution = solve(qp, {.tolerance = 1e-9});
  ASSERT_EQ(solution.status, Status::Solved);
  EXPECT_NEAR(solution.x[0], 0.5, 1e-12);
  EXPECT_NEAR(solution.z[0], 0.5, 1e-12);
  const QuadraticProgram<> bar = vjp(qp, solution, Vector{Vector::Ones(2)});
  EXPECT_NEAR(bar.h[0], 1, 1e-10);
}

TEST(Solve, LeavesOutRowsWithAnInfiniteLimit) {
  auto qp = random_program(3, 5, 4, 1);
  const auto without = solve(qp);
  qp.G.conservativeResize(5, 5);
  qp.G.row(4).setOnes();
  qp.h.conservativeResize(5);
  qp.h[4] = infinity;
  const auto with = solve(qp);
  EXPECT_LT((with.x - without.x).norm(), 1e-12);
  EXPECT_EQ(with.z[4], 0);
}

TEST(Solve, StartsFromAnEarlierSolution) {
  auto qp = random_program(4, 12, 12, 3);
  const auto first = solve(qp);
  qp.q *= 1.0001;
  const auto cold = solve(qp);
  const auto warm = solve(qp, {}, first);
  EXPECT_EQ(warm.status, Status::Solved);
  EXPECT_LT(warm.iterations, cold.iterations);
  EXPECT_LT((warm.x - cold.x).norm(), 1e-9);
}

TEST(Solve, ProvesThatAProgramIsPrimalInfeasible) {
  const QuadraticProgram<> qp{.P = DenseMatrix{{1.0}},
                              .q = Vector::Zero(1),
                              .G = DenseMatrix{{1.0}, {-1.0}},
                              .h = Vector{{0.0, -1.0}}};
  auto solution = solve(qp);
  ASSERT_EQ(solution.status, Status::PrimalInfeasible);
  const auto user = detail::normalised(qp);
  EXPECT_TRUE(detail::CertificateCheck<DenseMatrix>(user).proves_primal_infeasible(user, solution));
  EXPECT_LT((qp.G.transpose() * solution.z).norm(), 1e-9 * solution.z.norm());
  EXPECT_LT(qp.h.dot(solution.z), 0);
}

TEST(Solve, ProvesThatAProgramIsUnbounded) {
  const QuadraticProgram<> qp{
      .P = DenseMatrix::Zero(1, 1), .q = Vector{{-1.0}}, .G = DenseMatrix{{-1.0}}, .h = Vector::Zero(1)};
  const auto solution = solve(qp);
  ASSERT_EQ(solution.status, Status::DualInfeasible);
  EXPECT_GT(solution.x[0], 0);
}

TEST(Solve, RefusesAnIndefiniteHessian) {
  const QuadraticProgram<> qp{.P = DenseMatrix{{1.0, 2.0}, {2.0, 1.0}},
                              .q = Vector::Zero(2),
                              .lb = Vector::Constant(2, -1),
                              .ub = Vector::Ones(2)};
  EXPECT_EQ(solve(qp).status, Status::NonConvex);
  EXPECT_EQ(solve(sparse(qp)).status, Status::NonConvex);
}

TEST(Solve, ReturnsTheLastIterateAtTheLimitOfIterations) {
  const auto solution =
      solve(random_program(5, 10, 10, 2), {.max_iterations = 3, .method = Method::Alternating});
  EXPECT_EQ(solution.status, Status::MaxIterations);
  EXPECT_EQ(solution.iterations, 3);
  EXPECT_TRUE(solution.x.allFinite());
}

TEST(Solve, HasADerivativeWithoutTheFinishToo) {
  const auto qp = random_program(6, 10, 10, 2);
  const auto finished = solve(qp);
  const auto truncated = solve(qp, {.tolerance = 1e-10, .gradient_tolerance = 1e-12, .finish = false});
  ASSERT_EQ(truncated.status, Status::Solved);
  const DenseMatrix difference = jacobian(qp, finished, Field::b) - jacobian(qp, truncated, Field::b);
  EXPECT_LT(difference.cwiseAbs().maxCoeff(), 1e-8);
}

TEST(Solve, FlagsASolutionThatIsNotUnique) {
  const QuadraticProgram<> qp{.P = DenseMatrix::Ones(2, 2),
                              .q = Vector::Constant(2, -1),
                              .lb = Vector::Zero(2),
                              .ub = Vector::Ones(2)};
  const auto solution = solve(qp);
  EXPECT_EQ(solution.status, Status::Solved);
  EXPECT_FALSE(solution.unique);
  EXPECT_TRUE(vjp(qp, solution, Vector{Vector::Unit(2, 0)}).q.allFinite());
}

TEST(Solve, ErrorsNameTheField) {
  const auto broken = [](const auto& spoil) {
    auto qp = random_program(7, 4, 3, 2, true);
    spoil(qp);
    return message_of([&] { (void)solve(qp); });
  };
  EXPECT_EQ(broken([](auto& qp) { qp.q[1] = nan; }), "q holds NaN");
  EXPECT_EQ(broken([](auto& qp) { qp.h[1] = nan; }), "h holds NaN");
  EXPECT_NE(broken([](auto& qp) { qp.P(0, 0) = infinity; }).find("P holds an infinite"), std::string::npos);
  EXPECT_NE(broken([](auto& qp) { qp.h[0] = -infinity; }).find("h holds -inf"), std::string::npos);
  EXPECT_NE(broken([](auto& qp) { qp.lb[2] = 100; }).find("lb must not exceed ub, but does at index 2"),
            std::string::npos);
  EXPECT_NE(broken([](auto& qp) { qp.G.conservativeResize(3, 3); }).find("G must have shape (m, n)"),
            std::string::npos);
  EXPECT_NE(broken([](auto& qp) { qp.b.conservativeResize(1); }).find("A and b"), std::string::npos);
  EXPECT_NE(message_of([] { (void)solve(random_program(7, 2, 0, 0), {.tolerance = -1}); }).find("tolerance"),
            std::string::npos);
}

TEST(Residuals, NaNIsNeverBelowATolerance) {
  const auto qp = detail::normalised(random_program(8, 3, 2, 1));
  Point v{
      .x = Vector::Constant(3, nan), .y = Vector::Zero(1), .z = Vector::Zero(2), .z_box = Vector::Zero(3)};
  EXPECT_FALSE(detail::ResidualCheck<DenseMatrix>(qp)(qp, v).below(1e300));
}

}  // namespace
}  // namespace altdiff::test
