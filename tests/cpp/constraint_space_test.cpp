#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "dual_programs.hpp"
#include "linalg/at.hpp"

namespace altdiff::test {
namespace {

using detail::at;
using detail::DualProgram;
using detail::DualState;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Appends rows to A x = b: combinations of those that are there.
void add_equalities(QuadraticProgram<>& qp, const DenseMatrix& weights) {
  const DenseMatrix A = qp.A;
  const Vector b = qp.b;
  qp.A.resize(A.rows() + weights.rows(), qp.n());
  qp.A << A, weights * A;
  qp.b.resize(b.size() + weights.rows());
  qp.b << b, weights * b;
}

class ConstraintSpaceOf : public testing::TestWithParam<std::array<Index, 3>> {
 protected:
  QuadraticProgram<> qp(unsigned seed, bool bounds) const {
    const auto [n, m, p] = GetParam();
    return random_program(seed, n, m, p, bounds);
  }
};

/// Solves (AS6) on every third row of I, and compares with a dense factorisation of the KKT matrix.
void expect_kkt_solved(const InConstraintSpace& program, Random& random) {
  const Index n = program.qp.n();
  const Index p = program.qp.p();
  const Index k = program.space().inequalities();
  const DenseMatrix C = program.rows();
  DualState state;
  state.side.resize(at(k));
  for (Index i = 0, free = n - program.space().equalities(); i < k && free > 0; i += 3, --free)
    state.side[at(i)] = 1;
  state.list_rows();
  const DualProgram dual{.k = k, .M = program.space().M(), .stride = program.space().M_stride()};
  ASSERT_TRUE(factorise_rows(dual, state));

  const auto active = static_cast<Index>(state.rows.size());
  DenseMatrix T(p + active, n);
  T << program.qp.A, C(state.rows, Eigen::all);
  DenseMatrix K = DenseMatrix::Zero(n + p + active, n + p + active);
  K << program.qp.P, T.transpose(), T, DenseMatrix::Zero(p + active, p + active);
  const DenseMatrix u = random.normals(n, 3);
  const DenseMatrix v = random.normals(p + active, 3);
  DenseMatrix a = program.qp.P * u + T.transpose() * v;
  DenseMatrix c_E = program.qp.A * u;
  DenseMatrix c_I = C * u;  // rows outside of the set are not read
  const DenseMatrix right_side = a;
  detail::KktWorkspace workspace;
  const DualState* const states = &state;
  solve_kkt<DualState>(program.space(), {&states, 1}, a, c_E, c_I, workspace);

  const double size = 1 + u.norm() + v.norm();
  EXPECT_LT((a - u).norm(), 1e-9 * size);
  DenseMatrix multipliers(p + active, 3);
  multipliers << c_E, c_I(state.rows, Eigen::all);
  EXPECT_LT((program.qp.P * a + T.transpose() * multipliers - right_side).norm(), 1e-9 * size);
  Index left_out = 0;
  for (Index i = 0; i < p; ++i) left_out += c_E.row(i).isZero(0) ? 1 : 0;
  EXPECT_EQ(left_out, p - program.space().equalities());
  for (Index i = 0; i < k; ++i)
    if (state.side[at(i)] == 0) {
      EXPECT_TRUE(c_I.row(i).isZero(0)) << i;
    }
  if (left_out > 0) return;
  DenseMatrix full(n + p + active, 3);
  full << right_side, T * u;
  const DenseMatrix direct = K.fullPivLu().solve(full);
  EXPECT_LT((direct.topRows(n) - a).norm(), 1e-8 * size);
  EXPECT_LT((direct.bottomRows(p + active) - multipliers).norm(), 1e-8 * size);
}

TEST_P(ConstraintSpaceOf, ReduceAndExpandSolveTheKktSystemOnASet) {
  Random random(1);
  for (unsigned seed = 0; seed < 5; ++seed) {
    expect_kkt_solved(InConstraintSpace(qp(seed, false)), random);
    expect_kkt_solved(InConstraintSpace(qp(seed, true)), random);
  }
}

TEST_P(ConstraintSpaceOf, EqualitiesThatFollowFromOthersAreLeftOut) {
  Random random(2);
  for (unsigned seed = 0; seed < 5; ++seed) {
    auto redundant = qp(seed, true);
    const Index p = redundant.p();
    add_equalities(redundant, random.normals(2, p));  // p = 0: rows of zeros
    const InConstraintSpace program(redundant);
    ASSERT_TRUE(program.space().usable());
    EXPECT_EQ(program.space().equalities(), p);
    expect_kkt_solved(program, random);
  }
}

TEST_P(ConstraintSpaceOf, TheGramMatrixIsThatOfTheRowsOnTheEqualities) {
  const InConstraintSpace program(qp(3, true));
  const auto& space = program.space();
  const DenseMatrix C = program.rows();
  const Eigen::LLT<DenseMatrix> P(program.qp.P);
  const DenseMatrix& A = program.qp.A;
  DenseMatrix M = C * P.solve(C.transpose());
  const Vector lengths = M.diagonal().cwiseSqrt();
  if (A.rows() > 0) {
    const DenseMatrix M_IE = C * P.solve(A.transpose());
    M -= M_IE * DenseMatrix(A * P.solve(A.transpose())).llt().solve(M_IE.transpose());
  }
  for (Index j = 0; j < space.inequalities(); ++j) {
    EXPECT_NEAR(space.lengths()[j], lengths[j], 1e-10 * lengths[j]);
    for (Index i = 0; i < space.inequalities(); ++i)
      EXPECT_NEAR(space.M()[j * space.M_stride() + i], M(i, j), 1e-9 * M.norm());
  }
}

using Sizes = std::array<Index, 3>;
INSTANTIATE_TEST_SUITE_P(Sizes, ConstraintSpaceOf,
                         testing::Values(Sizes{1, 0, 0}, Sizes{1, 1, 0}, Sizes{6, 4, 2}, Sizes{6, 0, 2},
                                         Sizes{5, 3, 0}, Sizes{10, 8, 3}, Sizes{33, 21, 9},
                                         Sizes{40, 90, 1}));

TEST(ConstraintSpace, MarksRowsThatTheEqualitiesLeaveNoRoom) {
  auto qp = random_program(4, 5, 3, 2, true);
  qp.A.row(0) = 3 * Vector::Unit(5, 4).transpose();  // fixes a variable that has bounds
  qp.G.row(1).setZero();
  qp.G.row(2) = qp.A.row(1) - 2 * qp.A.row(0);
  const InConstraintSpace program(qp);
  ASSERT_TRUE(program.space().usable());
  for (Index i = 0; i < program.space().inequalities(); ++i)
    EXPECT_EQ(std::isinf(program.space().lengths()[i]), i == 1 || i == 2 || i == 3 + 4) << i;
}

TEST(ConstraintSpace, IsOfUseOnlyIfPIsSafelyDefinite) {
  const auto usable = [](const DenseMatrix& P) {
    auto qp = random_program(5, 3, 2, 1);
    qp.P = P;
    return InConstraintSpace(qp).space().usable();
  };
  EXPECT_TRUE(usable(DenseMatrix::Identity(3, 3)));
  EXPECT_TRUE(usable(Vector{{1.0, 1e-30, 1e30}}.asDiagonal())) << "a scale is no condition";
  EXPECT_FALSE(usable(DenseMatrix::Ones(3, 3)));
  EXPECT_FALSE(usable(DenseMatrix::Ones(3, 3) + 1e-15 * DenseMatrix::Identity(3, 3)));
  EXPECT_FALSE(usable(DenseMatrix::Zero(3, 3)));
  EXPECT_FALSE(usable(Vector{{1.0, -1.0, 1.0}}.asDiagonal()));
  EXPECT_FALSE(usable(DenseMatrix::Constant(3, 3, nan)));
}

TEST(ConstraintSpace, TakesTheSymmetricPartOfP) {
  auto qp = random_program(6, 7, 4, 2);
  qp.P = 0.5 * (qp.P + qp.P.transpose()).eval();
  const InConstraintSpace symmetric(qp);
  qp.P(1, 4) += 0.25;
  qp.P(4, 1) -= 0.25;
  const InConstraintSpace lopsided(qp);
  EXPECT_TRUE(symmetric.space().symmetric());
  EXPECT_FALSE(lopsided.space().symmetric());
  const Index stride = symmetric.space().M_stride();
  for (Index j = 0; j < 4; ++j)
    for (Index i = 0; i < 4; ++i)
      EXPECT_NEAR(symmetric.space().M()[j * stride + i], lopsided.space().M()[j * stride + i], 1e-14);
}

}  // namespace
}  // namespace altdiff::test
