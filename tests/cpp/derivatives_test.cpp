#include <gtest/gtest.h>

#include <altdiff/altdiff.hpp>

#include "random_problems.hpp"

namespace altdiff::test {
namespace {

/// A program whose fields are all normally distributed: a direction to move in.
QuadraticProgram<> random_direction(Random& random, const QuadraticProgram<>& qp) {
  const Index n = qp.n();
  return {.P = random.normals(n, n),
          .q = random.normals(n),
          .G = random.normals(qp.m(), n),
          .h = random.normals(qp.m()),
          .A = random.normals(qp.p(), n),
          .b = random.normals(qp.p()),
          .lb = random.normals(n),
          .ub = random.normals(n)};
}

QuadraticProgram<> moved(const QuadraticProgram<>& qp, const QuadraticProgram<>& d, double t) {
  return {.P = qp.P + t * d.P,
          .q = qp.q + t * d.q,
          .G = qp.G + t * d.G,
          .h = qp.h + t * d.h,
          .A = qp.A + t * d.A,
          .b = qp.b + t * d.b,
          .lb = qp.lb + t * d.lb,
          .ub = qp.ub + t * d.ub};
}

double inner(const QuadraticProgram<>& a, const QuadraticProgram<>& b) {
  return a.P.cwiseProduct(b.P).sum() + a.q.dot(b.q) + a.G.cwiseProduct(b.G).sum() + a.h.dot(b.h) +
         a.A.cwiseProduct(b.A).sum() + a.b.dot(b.b) + a.lb.dot(b.lb) + a.ub.dot(b.ub);
}

double inner(const Point& a, const Point& b) {
  return a.x.dot(b.x) + a.y.dot(b.y) + a.z.dot(b.z) + a.z_box.dot(b.z_box);
}

class Derivatives : public testing::TestWithParam<unsigned> {
 protected:
  QuadraticProgram<> qp = random_program(GetParam(), 6, 5, 2, true);
  Solution<DenseMatrix> solution = solve(qp);
  Random random{GetParam() + 100};
  QuadraticProgram<> direction = random_direction(random, qp);
};

TEST_P(Derivatives, TheTangentIsTheCentralDifference) {
  const double t = 1e-6;
  const auto after = solve(moved(qp, direction, t));
  const auto before = solve(moved(qp, direction, -t));
  const Point dot = jvp(qp, solution, direction);
  const auto expect_close = [&](const Vector& tangent, const Vector& difference) {
    EXPECT_LT((tangent - difference / (2 * t)).lpNorm<Eigen::Infinity>(),
              1e-6 * std::max(1.0, tangent.lpNorm<Eigen::Infinity>()));
  };
  expect_close(dot.x, after.x - before.x);
  expect_close(dot.y, after.y - before.y);
  expect_close(dot.z, after.z - before.z);
  expect_close(dot.z_box, after.z_box - before.z_box);
}

TEST_P(Derivatives, TheAdjointIsTheTransposeOfTheTangent) {
  const Point bar{
      .x = random.normals(6), .y = random.normals(2), .z = random.normals(5), .z_box = random.normals(6)};
  const double pushed = inner(bar, jvp(qp, solution, direction));
  const double pulled = inner(vjp(qp, solution, bar), direction);
  EXPECT_NEAR(pulled, pushed, 1e-9 * std::max(1.0, std::abs(pushed)));
}

TEST_P(Derivatives, TheJacobianHoldsTheTangentsOfAllUnitDirections) {
  const DenseMatrix J = jacobian(qp, solution, Field::h);
  for (Index i = 0; i < qp.m(); ++i) {
    const Point dot = jvp(qp, solution, {.h = Vector::Unit(qp.m(), i)});
    EXPECT_LT((J.col(i) - dot.x).norm(), 1e-9);
  }
}

TEST_P(Derivatives, SparseGradientsKeepThePatternAndTheNumbers) {
  auto pruned = qp;
  pruned.G = (qp.G.array().abs() > 0.7).select(qp.G, 0);
  pruned.h.array() += 3;  // so that a point is left
  const auto small = sparse(pruned);
  const Vector x_bar = random.normals(6);
  const auto dense_bar = vjp(pruned, solve(pruned), x_bar);
  const auto sparse_bar = vjp(small, solve(small), x_bar);
  ASSERT_EQ(sparse_bar.G.nonZeros(), small.G.nonZeros());
  for (Index j = 0; j < small.G.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(sparse_bar.G, j); it; ++it)
      EXPECT_NEAR(it.value(), dense_bar.G(it.row(), j), 1e-8);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Derivatives, testing::Range(0U, 10U));

TEST(DerivativesOfFailures, AreAnErrorThatNamesTheStatus) {
  const QuadraticProgram<> qp{
      .P = DenseMatrix::Zero(1, 1), .q = Vector{{-1.0}}, .G = DenseMatrix{{-1.0}}, .h = Vector::Zero(1)};
  const auto solution = solve(qp);
  try {
    (void)vjp(qp, solution, Vector{Vector::Ones(1)});
    FAIL() << "no error";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("DUAL_INFEASIBLE"), std::string::npos);
  }
}

}  // namespace
}  // namespace altdiff::test
