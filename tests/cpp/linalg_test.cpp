#include <gtest/gtest.h>

#include "linalg/augmented_system.hpp"
#include "linalg/known_analyses.hpp"
#include "linalg/sparse_ldl.hpp"
#include "random_problems.hpp"

namespace altdiff::test {
namespace {

using detail::Penalties;

/// A banded matrix with one full row: the kind of pattern where ordering matters.
SparseMatrix arrow(Index n, Random& random) {
  DenseMatrix X = DenseMatrix::Zero(n, n);
  for (Index j = 0; j < n; ++j) {
    X(j, j) = 4 + random.uniform();
    if (j + 1 < n) X(j, j + 1) = random.normal();
    X(0, j) += 0.1 * random.normal();
  }
  return X.sparseView();
}

TEST(SparseLdl, SolvesQuasiDefiniteSystems) {
  Random random(1);
  const Index n = 40;
  SparseMatrix upper = arrow(n, random);
  for (Index j = n / 2; j < n; ++j) upper.coeffRef(j, j) *= -1;
  upper.makeCompressed();
  DenseMatrix full = upper;
  full = (full + full.transpose()).eval() - DenseMatrix(full.diagonal().asDiagonal());

  detail::SparseLdl ldl(std::make_shared<const detail::LdlPattern>(upper));
  ASSERT_TRUE(ldl.factorise(upper.valuePtr(), n / 2));
  const Vector expected = random.normals(n);
  Vector b = full * expected;
  Vector workspace(n);
  ldl.solve(b.data(), 1, workspace.data());
  EXPECT_LT((b - expected).norm(), 1e-12);
}

TEST(SparseLdl, ReportsAPivotOfTheWrongSign) {
  SparseMatrix upper(2, 2);
  upper.insert(0, 0) = 1;
  upper.insert(0, 1) = 2;
  upper.insert(1, 1) = 1;
  upper.makeCompressed();
  detail::SparseLdl ldl(std::make_shared<const detail::LdlPattern>(upper));
  EXPECT_FALSE(ldl.factorise(upper.valuePtr(), 2));
  EXPECT_TRUE(ldl.factorise(upper.valuePtr(), 1));
}

TEST(KnownAnalyses, TheSamePatternIsAnalysedOnceWhateverItsNumbers) {
  const auto first = sparse(random_program(3, 9, 4, 2));
  auto second = first;
  second.P *= 2;
  second.G *= -1;
  const auto analysis = detail::analysis_of(first.P, first.A, first.G);
  EXPECT_EQ(detail::analysis_of(second.P, second.A, second.G), analysis);
  EXPECT_NE(detail::analysis_of(first.P, first.G, first.A), analysis) << "A and G have changed places";
  const auto other = sparse(random_program(3, 9, 5, 2));
  EXPECT_NE(detail::analysis_of(other.P, other.A, other.G), analysis);
}

TEST(AugmentedSystem, DenseAndSparseSolveTheSameSystem) {
  Random random(2);
  const auto qp = random_program(2, 8, 5, 3);
  const auto sp = sparse(qp);
  const Penalties R{.sigma = 1e-3,
                    .A = Vector::Constant(3, 7),
                    .G = Vector{{2.0, 0.0, 3.0, 0.0, 5.0}},
                    .box = Vector{{0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 9.0}}};
  detail::DenseSystem dense(qp.P, qp.A, qp.G);
  detail::SparseSystem sparse_system(sp.P, sp.A, sp.G);
  ASSERT_TRUE(dense.factorise(qp.P, qp.A, qp.G, R));
  ASSERT_TRUE(sparse_system.factorise(sp.P, sp.A, sp.G, R));

  PointBlock a{.x = random.normals(8, 2),
               .y = random.normals(3, 2),
               .z = random.normals(5, 2),
               .z_box = random.normals(8, 2)};
  PointBlock b = a;
  Vector workspace(sparse_system.workspace_size());
  dense.solve(a.x, a.y, a.z, a.z_box, workspace);
  sparse_system.solve(b.x, b.y, b.z, b.z_box, workspace);
  EXPECT_LT((a.x - b.x).norm() + (a.y - b.y).norm() + (a.z - b.z).norm() + (a.z_box - b.z_box).norm(), 1e-11);
  EXPECT_EQ(a.z.row(1).norm(), 0) << "a row without penalty takes no part";
}

TEST(AugmentedSystem, ColumnsThatAreSolvedForTogetherHaveTheBitsOfEachAlone) {
  Random random(4);
  const auto sp = sparse(random_program(4, 8, 5, 3));
  const Penalties R{
      .sigma = 1e-3, .A = Vector::Constant(3, 7), .G = Vector::Constant(5, 2), .box = Vector::Constant(8, 1)};
  detail::SparseSystem system(sp.P, sp.A, sp.G);
  ASSERT_TRUE(system.factorise(sp.P, sp.A, sp.G, R));
  for (const Index columns : {1, 3, 4, 5, 8, 11}) {
    const PointBlock given{.x = random.normals(8, columns),
                           .y = random.normals(3, columns),
                           .z = random.normals(5, columns),
                           .z_box = random.normals(8, columns)};
    PointBlock together = given;
    Vector room(system.workspace_size(columns));
    system.solve(together.x, together.y, together.z, together.z_box, room);
    PointBlock alone = given;
    Vector little_room(system.workspace_size());
    system.solve(alone.x, alone.y, alone.z, alone.z_box, little_room);
    EXPECT_EQ(together.x, alone.x) << columns << " columns";
    EXPECT_EQ(together.y, alone.y) << columns << " columns";
    EXPECT_EQ(together.z, alone.z) << columns << " columns";
    EXPECT_EQ(together.z_box, alone.z_box) << columns << " columns";
    DenseMatrix x = given.x;
    DenseMatrix x_alone = given.x;
    system.solve(x, room);
    system.solve(x_alone, little_room);
    EXPECT_EQ(x, x_alone) << columns << " columns";
  }
}

}  // namespace
}  // namespace altdiff::test
