#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <altdiff/altdiff.hpp>
#include <altdiff/batch.hpp>

#include "random_problems.hpp"

namespace altdiff::test {
namespace {

/// A strictly convex program whose first `weak` rows touch its unconstrained minimiser; the rest are far.
QuadraticProgram<> touched(unsigned seed, Index n, Index m, Index weak) {
  QuadraticProgram<> qp = random_program(seed, n, m, 0);
  const Vector x = -qp.P.llt().solve(qp.q);
  qp.h = qp.G * x;
  qp.h.tail(m - weak).array() += 5;
  qp.A = DenseMatrix(0, n);
  qp.b = Vector(0);
  return qp;
}

/// dx/dq with the weights t o t of the rows, t o (M t) = 1, M = G P^-1 G', by plain Newton steps.
DenseMatrix central_jacobian(const QuadraticProgram<>& qp, Index weak) {
  const DenseMatrix G = qp.G.topRows(weak);
  const DenseMatrix M = G * qp.P.llt().solve(G.transpose());
  Vector t = M.diagonal().cwiseSqrt().cwiseInverse();
  for (int step = 0; step < 200; ++step) {  // on 1/2 t'M t - sum log t
    DenseMatrix H = M;
    H.diagonal() += t.cwiseAbs2().cwiseInverse();
    const Vector d = H.llt().solve(t.cwiseInverse() - M * t);
    double part = 1;
    while ((t + part * d).minCoeff() <= 0) part *= 0.5;
    t += part * d;
  }
  EXPECT_LT((t.cwiseProduct(M * t) - Vector::Ones(weak)).norm(), 1e-12);
  const DenseMatrix K = qp.P + G.transpose() * t.cwiseAbs2().asDiagonal() * G;
  return -K.inverse();
}

class WeakRows : public testing::TestWithParam<Index> {};

TEST_P(WeakRows, EnterWithTheirWeightOnTheCentralPath) {
  const Index weak = GetParam();
  for (unsigned seed = 0; seed < 5; ++seed) {
    const auto qp = touched(seed, 6, 8, weak);
    const DenseMatrix expected = central_jacobian(qp, weak);
    const auto dense = solve(qp);
    const auto thin = sparse(qp);
    const auto solution = solve(thin);
    EXPECT_TRUE(dense.degenerate && dense.unique);
    EXPECT_TRUE(solution.degenerate && solution.unique);
    EXPECT_LT((jacobian(qp, dense, Field::q) - expected).norm(), 1e-9 * expected.norm());
    EXPECT_LT((jacobian(thin, solution, Field::q) - expected).norm(), 1e-9 * expected.norm());
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, WeakRows, testing::Values(1, 2, 4, 6));

TEST(WeakBound, IsTreatedAsTheSameRowOfG) {
  const auto rows = touched(3, 4, 4, 2);
  auto as_rows = rows;
  as_rows.G = DenseMatrix::Identity(4, 4);
  const Vector x = -rows.P.llt().solve(rows.q);
  as_rows.h = x + Vector{{0.0, 0.0, 3.0, 3.0}};
  QuadraticProgram<> as_bounds = as_rows;
  as_bounds.G = DenseMatrix(0, 4);
  as_bounds.h = Vector(0);
  as_bounds.ub = as_rows.h;
  const DenseMatrix J = jacobian(as_rows, solve(as_rows), Field::q);
  EXPECT_LT((jacobian(as_bounds, solve(as_bounds), Field::q) - J).norm(), 1e-10);
  EXPECT_LT(
      (jacobian(as_bounds, solve(as_bounds), Field::ub) - jacobian(as_rows, solve(as_rows), Field::h)).norm(),
      1e-10);
}

TEST(WeakRow, ThatOnlyHoldTogetherAreStrict) {
  // x_1 <= 0 and x_1 >= 0, with no force on either: x_1 cannot move, although both multipliers are zero.
  const QuadraticProgram<> qp{.P = DenseMatrix::Identity(2, 2),
                              .q = Vector{{0.0, -1.0}},
                              .G = DenseMatrix{{1.0, 0.0}, {-1.0, 0.0}},
                              .h = Vector::Zero(2)};
  const auto thin = sparse(qp);
  const DenseMatrix expected{{0.0, 0.0}, {0.0, -1.0}};
  EXPECT_LT((jacobian(qp, solve(qp), Field::q) - expected).norm(), 1e-9);
  EXPECT_LT((jacobian(thin, solve(thin), Field::q) - expected).norm(), 1e-9);
}

TEST(WeakRow, AlongAFlatDirectionDoNotMakeXUnique) {
  // x_2 is free in [0, 1]. Started from x_2 = 0, the finish stays there, at a weak bound.
  const QuadraticProgram<SparseMatrix> qp = sparse({.P = DenseMatrix{{1.0, 0.0}, {0.0, 0.0}},
                                                    .q = Vector{{-1.0, 0.0}},
                                                    .lb = Vector{{-9.0, 0.0}},
                                                    .ub = Vector{{9.0, 1.0}}});
  const auto solution = solve(qp, {}, {.x = Vector{{1.0, 0.0}}});
  EXPECT_EQ(solution.status, Status::Solved);
  EXPECT_FALSE(solution.unique);
  const auto gradient = vjp(qp, solution, Vector{{1.0, 1.0}});
  EXPECT_NEAR(gradient.q[0], -1, 1e-6);
  EXPECT_LT(std::abs(gradient.q[1]), 1);
}

TEST(DegenerateInstances, OfABatchFollowTheSameConvention) {
  const Index n = 3;
  const auto kink = touched(1, n, 4, 2);
  auto smooth = kink;
  smooth.h.array() += 1;
  const DenseMatrix rows = kink.G.transpose();
  std::vector<double> h;
  for (Index i = 0; i < 6; ++i) {
    const Vector& own = i % 2 == 0 ? kink.h : smooth.h;
    h.insert(h.end(), own.begin(), own.end());
  }
  BatchProgram batch{.size = 6, .n = n, .m = 4, .p = 0};
  batch[Field::P].data = kink.P.data();
  batch[Field::q].data = kink.q.data();
  batch[Field::G].data = rows.data();
  batch[Field::h] = {.data = h.data(), .count = 6};
  const auto solution = solve(batch);
  const std::vector<double> J = jacobian(batch, solution, Field::q);
  for (Index i = 0; i < 6; ++i) {
    const auto& one = i % 2 == 0 ? kink : smooth;
    const DenseMatrix expected = jacobian(one, solve(one), Field::q);
    const Eigen::Map<const DenseMatrix> own(J.data() + i * n * n, n, n);
    EXPECT_EQ(solution.degenerate[static_cast<std::size_t>(i)] != 0, i % 2 == 0);
    EXPECT_LT((own.transpose() - expected).norm(), 1e-10);
  }
}

}  // namespace
}  // namespace altdiff::test
