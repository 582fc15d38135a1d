#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <limits>
#include <vector>

#include "linalg/dense.hpp"
#include "linalg/lanes.hpp"
#include "linalg/small.hpp"
#include "random_problems.hpp"

namespace altdiff::test {
namespace {

using detail::Op;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double guard = 12345;
constexpr Index largest_size = 40;

/// A matrix whose columns have `spare` numbers behind them that may be used, and then two that may not.
class Guarded {
 public:
  Guarded(const DenseMatrix& X, Index spare)
      : rows_(X.rows()), numbers_(DenseMatrix::Constant(rows_ + spare + 2, X.cols(), nan)) {
    numbers_.topRows(rows_) = X;
    numbers_.bottomRows(2).setConstant(guard);
  }

  double* data() { return numbers_.data(); }
  [[nodiscard]] Index stride() const { return numbers_.rows(); }
  [[nodiscard]] DenseMatrix matrix() const { return numbers_.topRows(rows_); }
  [[nodiscard]] bool guarded() const { return (numbers_.bottomRows(2).array() == guard).all(); }

 private:
  Index rows_;
  DenseMatrix numbers_;
};

DenseMatrix definite(Random& random, Index n) {
  const DenseMatrix X = random.normals(n, n);
  return X * X.transpose() / static_cast<double>(std::max<Index>(n, 1)) + 0.5 * DenseMatrix::Identity(n, n);
}

/// The lower triangle; NaN above, for functions that have no business there.
DenseMatrix without_upper(DenseMatrix X) {
  X.triangularView<Eigen::StrictlyUpper>().setConstant(nan);
  return X;
}

DenseMatrix lower(const DenseMatrix& X) { return X.triangularView<Eigen::Lower>(); }

void expect_near(const DenseMatrix& X, const DenseMatrix& expected, double tolerance = 1e-12) {
  ASSERT_EQ(X.rows(), expected.rows());
  ASSERT_EQ(X.cols(), expected.cols());
  if (X.size() == 0) return;
  ASSERT_TRUE(X.allFinite());
  EXPECT_LT((X - expected).cwiseAbs().maxCoeff(), tolerance * std::max(1.0, expected.cwiseAbs().maxCoeff()));
}

TEST(Padded, LeavesRoomForThePaddingAndAvoidsRoundStrides) {
  for (Index rows = 0; rows < 300; ++rows) {
    EXPECT_GE(detail::padded(rows), rows + detail::padding);
    EXPECT_LE(detail::padded(rows), rows + detail::padding + 7);
    EXPECT_NE(detail::padded(rows) % 64, 0);
  }
}

TEST(SmallPartialCholesky, CarriesEigensFactorOnToTheRowsBelowForAllSizes) {
  Random random(1);
  for (Index n = 1; n <= largest_size; ++n)
    for (const Index extra : {0, 1, 2, 3, 7, 12}) {
      const DenseMatrix P = definite(random, n);
      const DenseMatrix C = random.normals(extra, n);
      DenseMatrix stacked(n + extra, n);
      stacked << without_upper(P), C;
      Guarded T(stacked, detail::padding);
      ASSERT_TRUE(detail::small_partial_cholesky(T.data(), T.stride(), n + extra, n, 1)) << n << ' ' << extra;
      const DenseMatrix L = P.llt().matrixL();
      expect_near(lower(T.matrix().topRows(n)), L);
      expect_near(T.matrix().bottomRows(extra) * L.transpose(), C);
      EXPECT_TRUE(T.guarded()) << n << ' ' << extra;
    }
}

TEST(SmallPartialCholesky, IsTheSameOnAnyNumberOfThreads) {
  Random random(2);
  for (const Index n : {47, 48, 49, 96, 130, 203}) {
    DenseMatrix stacked(n + 61, n);
    stacked << without_upper(definite(random, n)), random.normals(61, n);
    Guarded one(stacked, detail::padding);
    ASSERT_TRUE(detail::small_partial_cholesky(one.data(), one.stride(), n + 61, n, 1));
    const DenseMatrix L = DenseMatrix(one.matrix().topRows(n).triangularView<Eigen::Lower>());
    expect_near(lower(L * L.transpose()), lower(stacked.topRows(n)));
    expect_near(one.matrix().bottomRows(61) * L.transpose(), stacked.bottomRows(61));
    for (const int threads : {2, 4}) {
      Guarded several(stacked, detail::padding);
      ASSERT_TRUE(detail::small_partial_cholesky(several.data(), several.stride(), n + 61, n, threads));
      EXPECT_EQ(lower(several.matrix().topRows(n)), lower(one.matrix().topRows(n))) << n;
      EXPECT_EQ(several.matrix().bottomRows(61), one.matrix().bottomRows(61)) << n;
      EXPECT_TRUE(several.guarded());
    }
  }
}

TEST(SmallPartialCholesky, SaysAtWhicheverPivotThatAMatrixIsNotPositiveDefinite) {
  for (const Index n : {1, 2, 3, 4, 5, 9, 14})
    for (Index pivot = 0; pivot < n; ++pivot)
      for (const double left : {0.0, -1e-300, -1.0, nan}) {
        // Ones below the diagonal of L: with integers the pivot is exactly what is left of it.
        const DenseMatrix L = DenseMatrix::Ones(n, n).triangularView<Eigen::Lower>();
        DenseMatrix P = L * L.transpose();
        P(pivot, pivot) = static_cast<double>(pivot) + left;
        Guarded T(P, detail::padding);
        EXPECT_FALSE(detail::small_partial_cholesky(T.data(), T.stride(), n, n, 1)) << n << ' ' << pivot;
        EXPECT_TRUE(T.guarded());
      }
}

TEST(SmallGram, AddsTheProductToTheLowerTriangleForAllSizes) {
  Random random(3);
  for (Index rows = 1; rows <= largest_size; ++rows)
    for (const Index columns : {0, 1, 4, 7})
      for (const double beta : {0.0, 1.0, -0.5}) {
        Guarded A(random.normals(rows, columns), detail::padding);
        const DenseMatrix before = random.normals(rows, rows);
        Guarded C(beta == 0 ? DenseMatrix::Constant(rows, rows, nan) : before, detail::padding);
        detail::small_gram(-2, A.data(), A.stride(), rows, columns, beta, C.data(), C.stride(), rows, 1);
        const DenseMatrix X = A.matrix();
        expect_near(lower(C.matrix()), lower(-2 * X * X.transpose() + beta * before));
        EXPECT_TRUE(C.guarded() && A.guarded()) << rows << ' ' << columns;
      }
}

TEST(SmallGram, WritesOnlyTheColumnsThatAreAskedForOnAnyNumberOfThreads) {
  Random random(14);
  for (const Index head : {1, 3, 16, 17, 50})
    for (const int threads : {1, 2, 4}) {
      Guarded A(random.normals(70, 9), detail::padding);
      Guarded C(DenseMatrix::Constant(70, head, nan), detail::padding);
      detail::small_gram(1, A.data(), A.stride(), 70, 9, 0, C.data(), C.stride(), head, threads);
      const DenseMatrix X = A.matrix();
      const DenseMatrix product = X * X.transpose();
      expect_near(lower(C.matrix().topRows(head)), lower(product.topLeftCorner(head, head)));
      expect_near(C.matrix().bottomRows(70 - head), product.bottomLeftCorner(70 - head, head));
      EXPECT_TRUE(C.guarded()) << head;
    }
}

TEST(SmallTranspose, TransposesAllShapesAndWritesNothingElse) {
  Random random(4);
  for (Index rows = 0; rows <= largest_size; ++rows)
    for (const Index columns : {0, 1, 3, 4, 6, 37}) {
      Guarded source(random.normals(rows, columns), 1);
      Guarded target(DenseMatrix::Constant(columns, rows, nan), 0);
      detail::small_transpose(source.data(), source.stride(), rows, columns, target.data(), target.stride());
      expect_near(target.matrix(), source.matrix().transpose(), 1e-300);
      EXPECT_TRUE(target.guarded()) << rows << ' ' << columns;
    }
}

TEST(SmallScaledRows, GathersAnyRowsAndWritesOnlyThePaddingBeside) {
  Random random(6);
  for (Index rows = 1; rows <= largest_size; ++rows)
    for (const Index columns : {1, 3, 4, 6, 37}) {
      const DenseMatrix source = random.normals(columns, largest_size);  // one column a row
      const Vector scale = source.col(1);
      Guarded target(DenseMatrix::Constant(rows, columns, nan), detail::padding);
      std::vector<const double*> chosen;
      DenseMatrix expected(rows, columns);
      for (Index i = 0; i < rows; ++i) {
        chosen.push_back(source.col((7 * i) % largest_size).data());
        expected.row(i) = source.col((7 * i) % largest_size).cwiseProduct(scale).transpose();
      }
      detail::small_scaled_rows(chosen, scale.data(), columns, target.data(), target.stride());
      expect_near(target.matrix(), expected, 1e-300);
      EXPECT_TRUE(target.guarded()) << rows << ' ' << columns;
    }
}

TEST(CopySymmetricPart, AveragesAllSizesAndFindsTheLargestNumber) {
  Random random(5);
  for (Index n = 1; n <= 2 * largest_size; n += n < largest_size ? 1 : 7) {
    const DenseMatrix P = random.normals(n, n);
    Guarded target(DenseMatrix::Constant(n, n, nan), 0);
    const auto part = detail::copy_symmetric_part(P.data(), n, target.data(), target.stride());
    const DenseMatrix expected = 0.5 * (P + P.transpose());
    expect_near(lower(target.matrix()), lower(expected), 1e-300);
    EXPECT_EQ(part.largest, expected.cwiseAbs().maxCoeff()) << n;
    EXPECT_EQ(part.exact, n == 1) << n;
    EXPECT_TRUE(target.guarded()) << n;
  }
}

TEST(CopySymmetricPart, NoticesOneNumberThatIsNotSymmetricWhereverItIs) {
  Random random(6);
  for (const Index n : {2, 4, 7, 34}) {
    DenseMatrix P = definite(random, n);
    P = (P + P.transpose()).eval();
    DenseMatrix target(n, n);
    ASSERT_TRUE(detail::copy_symmetric_part(P.data(), n, target.data(), n).exact);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) {
        if (i == j) continue;
        DenseMatrix spoilt = P;
        spoilt(i, j) += 1e-9;
        EXPECT_FALSE(detail::copy_symmetric_part(spoilt.data(), n, target.data(), n).exact) << i << ' ' << j;
      }
  }
}

/// Four systems of their own sizes, filled up with the identity.
struct FourSystems {
  std::vector<DenseMatrix> M{};
  std::vector<Vector> b{};

  void fill(detail::LaneCholesky& cholesky, Index size) const {
    cholesky.resize(size);
    for (Index lane = 0; lane < detail::lanes; ++lane) {
      const DenseMatrix& own = M[static_cast<std::size_t>(lane)];
      for (Index i = 0; i < size; ++i) {
        for (Index j = 0; j <= i; ++j)
          cholesky.entry(i, j, lane) = i < own.rows() ? own(i, j) : (i == j ? 1 : 0);
        cholesky.right_side(i, lane) = i < own.rows() ? b[static_cast<std::size_t>(lane)][i] : 0;
      }
    }
  }
  void expect_solved(detail::LaneCholesky& cholesky, Index lane) const {
    const DenseMatrix& own = M[static_cast<std::size_t>(lane)];
    const Eigen::LLT<DenseMatrix> llt(own);
    const DenseMatrix L = llt.matrixL();
    const Vector x = llt.solve(b[static_cast<std::size_t>(lane)]);
    for (Index i = 0; i < own.rows(); ++i) {
      EXPECT_NEAR(cholesky.right_side(i, lane), x[i], 1e-11 * std::max(1.0, x.cwiseAbs().maxCoeff()));
      for (Index j = 0; j <= i; ++j) EXPECT_NEAR(cholesky.entry(i, j, lane), L(i, j), 1e-12 * L.norm());
    }
  }
};

FourSystems four_systems(Random& random, const std::array<Index, detail::lanes>& sizes) {
  FourSystems systems;
  for (const Index size : sizes) {
    systems.M.push_back(definite(random, size));
    systems.b.push_back(random.normals(size));
  }
  return systems;
}

TEST(LaneCholesky, SolvesFourSystemsOfDifferentSizesAtOnce) {
  Random random(7);
  for (Index size = 1; size <= largest_size; ++size) {
    detail::LaneCholesky cholesky(largest_size);
    const auto systems = four_systems(random, {size, size / 2, 0, size - 1});
    systems.fill(cholesky, size);
    const auto failed = cholesky.solve(1e-12);
    for (Index lane = 0; lane < detail::lanes; ++lane) {
      EXPECT_FALSE(failed[static_cast<std::size_t>(lane)]) << size;
      systems.expect_solved(cholesky, lane);
    }
  }
}

TEST(LaneCholesky, ReportsASingularLaneAndSolvesTheOthers) {
  Random random(8);
  for (const Index size : {1, 2, 5, 8, 23})
    for (std::size_t bad = 0; bad < detail::lanes; ++bad)
      for (const double spoil : {0.0, -1.0, nan}) {
        detail::LaneCholesky cholesky(size);
        auto systems = four_systems(random, {size, size, size, size});
        const DenseMatrix good = systems.M[bad];
        systems.M[bad].row(size - 1) = spoil * good.row(0);
        systems.M[bad](size - 1, size - 1) = spoil * good(0, 0);
        systems.fill(cholesky, size);
        const auto failed = cholesky.solve(1e-12);
        for (std::size_t lane = 0; lane < detail::lanes; ++lane) {
          EXPECT_EQ(failed[lane], lane == bad) << size << ' ' << spoil;
          if (lane != bad) systems.expect_solved(cholesky, static_cast<Index>(lane));
        }
      }
}

TEST(LaneCholesky, JudgesAPivotRelativeToItsDiagonal) {
  for (const double scale : {1e-20, 1.0, 1e20}) {
    detail::LaneCholesky cholesky(2);
    FourSystems systems;
    for (const double left : {1e-3, 1e-7, 1e-9, 1.0}) {
      systems.M.push_back(scale * DenseMatrix{{1, 1}, {1, 1 + left}});
      systems.b.push_back(Vector::Ones(2));
    }
    systems.fill(cholesky, 2);
    const std::array<bool, detail::lanes> expected{false, true, true, false};
    EXPECT_EQ(cholesky.solve(1e-6), expected) << scale;
  }
}

/// Shapes on both sides of every size at which another routine takes over.
constexpr std::array<Index, 7> sides{0, 1, 5, 23, 24, 95, 97};

TEST(Multiply, EqualsEigensProductForSmallAndLarge) {
  Random random(9);
  for (const Index rows : sides)
    for (const Index inner : sides)
      for (const Index columns : {0, 1, 3})
        for (const bool transposed : {false, true}) {
          const DenseMatrix A = transposed ? random.normals(inner, rows) : random.normals(rows, inner);
          const DenseMatrix B = random.normals(inner, columns);
          const DenseMatrix op_A = transposed ? A.transpose() : A;
          const Op op = transposed ? Op::Transpose : Op::None;
          const DenseMatrix before = random.normals(rows, columns);
          for (const double beta : {1.0, 0.5}) {
            DenseMatrix C = before;
            detail::multiply(op, Op::None, -2, A, B, beta, C);
            expect_near(C, -2 * op_A * B + beta * before);
          }
          DenseMatrix C = DenseMatrix::Constant(rows, columns, nan);
          detail::multiply(op, Op::None, 1, A, B, 0, C);
          expect_near(C, op_A * B);
        }
}

TEST(Multiply, TakesATransposedRightFactorAndParts) {
  Random random(10);
  for (const Index rows : {1, 6, 40})
    for (const Index columns : {1, 5, 33}) {
      const DenseMatrix A = random.normals(rows + 3, 4);
      const DenseMatrix B = random.normals(columns + 2, 4);
      DenseMatrix C = DenseMatrix::Constant(rows + 4, columns, nan);
      detail::multiply(Op::None, Op::Transpose, 1, A.middleRows(1, rows), B.topRows(columns), 0,
                       C.middleRows(2, rows));
      expect_near(C.middleRows(2, rows), A.middleRows(1, rows) * B.topRows(columns).transpose());
      EXPECT_TRUE(C.topRows(2).array().isNaN().all() && C.bottomRows(2).array().isNaN().all());
    }
}

TEST(TriangularSolve, EqualsEigensForSmallAndLargeAndLeavesTheUpperTriangleAlone) {
  Random random(11);
  for (const Index n : sides)
    for (const Index columns : {0, 1, 3})
      for (const Op op : {Op::None, Op::Transpose}) {
        const DenseMatrix L = definite(random, n).llt().matrixL();
        DenseMatrix padded = DenseMatrix::Constant(n + 3, n, nan);
        padded.topRows(n) = without_upper(L);
        const DenseMatrix X = random.normals(n, columns);
        DenseMatrix b = op == Op::None ? DenseMatrix(L * X) : DenseMatrix(L.transpose() * X);
        detail::triangular_solve(op, padded.topRows(n), b);
        expect_near(b, X, 1e-10);
      }
}

TEST(PartialCholesky, IsTheSameBelowAndAboveTheSizeWhereBlasTakesOver) {
  Random random(12);
  for (const Index n : {299, 301}) {
    const DenseMatrix P = definite(random, n);
    DenseMatrix T = DenseMatrix::Constant(detail::padded(n + 5), n, nan);
    T.topRows(n) = without_upper(P);
    T.middleRows(n, 5) = random.normals(5, n);
    const DenseMatrix C = T.middleRows(n, 5);
    ASSERT_TRUE(detail::partial_cholesky(T.topRows(n + 5), 1));
    const DenseMatrix L = lower(T.topRows(n));
    expect_near(L * L.transpose(), P);
    expect_near(T.middleRows(n, 5) * L.transpose(), C);

    const DenseMatrix Y = T.middleRows(n, 5);
    DenseMatrix M = DenseMatrix::Constant(detail::padded(5), 5, nan);
    detail::gram(1, T.middleRows(n, 5), 0, M.topRows(5), 1);
    expect_near(lower(M.topRows(5)), lower(Y * Y.transpose()));
    DenseMatrix spoilt = DenseMatrix::Zero(detail::padded(n), n);
    spoilt.topRows(n) = P;
    spoilt(n - 1, n - 1) = -1;
    EXPECT_FALSE(detail::partial_cholesky(spoilt.topRows(n), 1));
  }
}

TEST(Symmetrise, CopiesTheLowerTriangleUp) {
  Random random(13);
  for (const Index n : {0, 1, 2, 31, 33, 70}) {
    DenseMatrix K = random.normals(n, n);
    const DenseMatrix L = lower(K);
    detail::symmetrise(K);
    expect_near(K, DenseMatrix(L.selfadjointView<Eigen::Lower>()), 1e-300);
  }
}

TEST(AllFinite, FindsWhatIsNoNumberWhereverItIs) {
  const std::vector<double> none;
  EXPECT_TRUE(detail::all_finite(none.data(), 0));
  for (const Index count : {1, 4, 7, 33}) {
    Vector numbers = Vector::Constant(count, 1e308);
    EXPECT_TRUE(detail::all_finite(numbers.data(), count));
    for (Index i = 0; i < count; ++i)
      for (const double wrong : {nan, std::numeric_limits<double>::infinity()}) {
        Vector spoilt = numbers;
        spoilt[i] = wrong;
        EXPECT_FALSE(detail::all_finite(spoilt.data(), count));
      }
  }
}

}  // namespace
}  // namespace altdiff::test
