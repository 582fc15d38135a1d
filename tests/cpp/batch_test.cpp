#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "batches.hpp"
#include "linalg/at.hpp"
#include "problem/certificates.hpp"
#include "problem/checks.hpp"
#include "problem/residuals.hpp"

namespace altdiff::test {
namespace {

using detail::at;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Programs of one shape around points of their own.
std::vector<QuadraticProgram<>> programs(Index count, unsigned seed, Index n, Index m, Index p,
                                         bool bounds = true) {
  std::vector<QuadraticProgram<>> result;
  for (Index i = 0; i < count; ++i)
    result.push_back(random_program(seed + static_cast<unsigned>(i), n, m, p, bounds));
  return result;
}

/// The same programs with matrices that may be shared: the first one's, with right-hand sides that fit them.
std::vector<QuadraticProgram<>> with_one_set_of_matrices(std::vector<QuadraticProgram<>> instances) {
  Random random(99);
  for (auto& qp : instances) {
    const Vector inside = qp.lb.size() > 0 ? Vector(0.5 * (qp.lb + qp.ub)) : random.normals(qp.n());
    qp.P = instances.front().P;
    qp.G = instances.front().G;
    qp.A = instances.front().A;
    qp.b = qp.A * inside;
    qp.h = qp.G * inside;
    for (double& value : qp.h) value += random.uniform();
  }
  return instances;
}

const std::vector<Field> matrices{Field::P, Field::G, Field::A};

void expect_equal(const Point& v, const Point& expected, double tolerance = 1e-11) {
  const auto near = [&](const Vector& a, const Vector& b) {
    ASSERT_EQ(a.size(), b.size());
    if (a.size() == 0) return;
    EXPECT_LT((a - b).cwiseAbs().maxCoeff(), tolerance * std::max(1.0, b.cwiseAbs().maxCoeff()));
  };
  near(v.x, expected.x);
  near(v.y, expected.y);
  near(v.z, expected.z);
  near(v.z_box, expected.z_box);
}

/// A batch ends as its members do alone.
void expect_equal_to_loop(const Batch& batch, const Settings& settings = {}, double tolerance = 1e-11) {
  const auto solution = solve(batch.program, settings);
  for (Index i = 0; i < batch.size(); ++i) {
    const auto one = solve(batch.instances[at(i)], settings);
    ASSERT_EQ(solution.status[at(i)], Status::Solved) << i;
    ASSERT_EQ(one.status, Status::Solved) << i;
    expect_equal(column_of(solution.point, i), one, tolerance);
    EXPECT_NEAR(solution.objective[i], one.objective, tolerance * (1 + std::abs(one.objective)));
    if (std::isfinite(one.margin)) {
      EXPECT_NEAR(solution.margin[i], one.margin, 1e-9);
    }
    EXPECT_LT(solution.primal_residual[i] + solution.dual_residual[i] + solution.duality_gap[i], 1e-8);
    EXPECT_EQ(solution.degenerate[at(i)] != 0, one.degenerate);
    EXPECT_EQ(solution.unique[at(i)] != 0, one.unique);
  }
}

TEST(Batch, EqualsALoopWhateverIsShared) {
  expect_equal_to_loop(Batch(programs(9, 1, 8, 6, 2)));
  const auto like = with_one_set_of_matrices(programs(37, 10, 8, 6, 2));
  for (const auto& shared : std::vector<std::vector<Field>>{matrices,
                                                            {Field::P},
                                                            {Field::G, Field::A},
                                                            {Field::P, Field::q},
                                                            {Field::P, Field::G, Field::A, Field::q},
                                                            {all_fields.begin(), all_fields.end()}})
    expect_equal_to_loop(Batch(like, shared));
}

TEST(Batch, EqualsALoopForEveryShape) {
  expect_equal_to_loop(Batch(programs(5, 50, 1, 1, 0)));
  expect_equal_to_loop(Batch(programs(5, 60, 6, 0, 0, false)));
  expect_equal_to_loop(Batch(programs(5, 70, 6, 0, 3, false), matrices));
  expect_equal_to_loop(Batch(programs(5, 80, 6, 0, 0)));
  expect_equal_to_loop(Batch(programs(6, 90, 5, 30, 1)));
  expect_equal_to_loop(Batch(programs(1, 100, 20, 10, 4), matrices));
  expect_equal_to_loop(Batch(with_one_set_of_matrices(programs(3, 110, 70, 100, 20)), matrices));
}

TEST(Batch, MapsInstancesToArrays) {
  auto like = with_one_set_of_matrices(programs(7, 120, 6, 4, 2));
  like[1].P *= 2;
  like[2].P *= 3;
  like[1].q *= -1;
  Batch batch(like, {Field::G});
  batch.map(Field::P, {0, 2, 1, 1, 0, 2, 2}, 3);
  batch.map(Field::q, {1, 1, 0, 0, 1, 0, 1}, 2);
  expect_equal_to_loop(batch);
  batch.map(Field::A, {0, 0, 0, 0, 0, 0, 0}, 1);
  expect_equal_to_loop(batch);
}

TEST(Batch, EqualsALoopForTheAlternatingEngineToo) {
  expect_equal_to_loop(Batch(programs(3, 130, 6, 4, 2)), {.method = Method::Alternating}, 1e-8);
  expect_equal_to_loop(Batch(programs(3, 140, 6, 4, 2)), {.tolerance = 1e-10, .finish = false}, 1e-8);
}

/// All numbers of a solution and of its gradients.
std::vector<DenseMatrix> all_numbers(const Batch& batch, const PointBlock& bar, int threads) {
  const auto solution = solve(batch.program, {.num_threads = threads});
  for (const Status status : solution.status) EXPECT_EQ(status, Status::Solved);
  std::vector<DenseMatrix> numbers{solution.point.x,     solution.point.y,   solution.point.z,
                                   solution.point.z_box, solution.objective, solution.margin};
  const Gradients gradients(batch.program, solution, cotangent(bar), {}, threads);
  for (const auto& own : gradients.numbers)
    numbers.emplace_back(Eigen::Map<const Vector>(own.data(), static_cast<Index>(own.size())));
  const PointBlock tangent = jvp(batch.program, solution, batch.program, {}, threads);
  numbers.insert(numbers.end(), {tangent.x, tangent.y, tangent.z, tangent.z_box});
  return numbers;
}

TEST(Batch, IsTheSameBitForBitOnAnyNumberOfThreads) {
  Random random(2);
  const auto expect_same = [&](const Batch& batch) {
    const PointBlock bar = random_bars(random, batch.program);
    const auto expected = all_numbers(batch, bar, 1);
    for (const int threads : {2, 4}) {
      const auto numbers = all_numbers(batch, bar, threads);
      for (std::size_t part = 0; part < numbers.size(); ++part)
        EXPECT_TRUE(numbers[part] == expected[part]) << threads << " threads, part " << part;
    }
  };
  for (const Index size : {1, 3, 31, 33, 67}) {
    expect_same(Batch(programs(size, 150, 9, 7, 2)));
    expect_same(Batch(with_one_set_of_matrices(programs(size, 250, 9, 7, 2)), matrices));
    expect_same(Batch(with_one_set_of_matrices(programs(size, 350, 9, 7, 2)), {Field::P, Field::q}));
  }
  expect_same(Batch(programs(7, 450, 60, 40, 10)));
  expect_same(Batch(with_one_set_of_matrices(programs(35, 460, 70, 40, 10)), matrices));
  Batch mapped(with_one_set_of_matrices(programs(5, 500, 6, 4, 2)), {Field::G, Field::A});
  mapped.map(Field::P, {0, 1, 1, 0, 2}, 3);
  expect_same(mapped);
}

TEST(Batch, AnInstanceWithWrongNumbersIsInvalidAndTheOthersAreUntouched) {
  const auto good = programs(12, 510, 6, 4, 2);
  auto spoilt = good;
  spoilt[0].q[3] = nan;
  spoilt[1].b[1] = infinity;
  spoilt[2].h[0] = -infinity;
  spoilt[4].lb[0] = infinity;
  spoilt[5].ub[5] = nan;
  spoilt[6].lb[2] = spoilt[6].ub[2] + 1;
  spoilt[7].P(2, 3) = nan;
  spoilt[8].G(1, 1) = nan;
  spoilt[9].A(0, 4) = -infinity;
  spoilt[11].h[2] = nan;
  Batch batch(spoilt);
  const auto solution = solve(batch.program);
  for (Index i = 0; i < batch.size(); ++i) {
    if (i == 3 || i == 10) {
      EXPECT_EQ(solution.status[at(i)], Status::Solved);
      expect_equal(column_of(solution.point, i), solve(good[at(i)]), 1e-12);
    } else {
      EXPECT_EQ(solution.status[at(i)], Status::InvalidData) << i;
      EXPECT_TRUE(solution.point.x.col(i).array().isNaN().all()) << i;
    }
  }
}

TEST(Batch, WrongNumbersInAnArrayThatAllShareMakeAllInvalid) {
  for (const Field field : all_fields) {
    auto like = with_one_set_of_matrices(programs(3, 530, 4, 3, 1));
    with_field(like[0], field, [](auto& own) { own(0) = nan; });
    const Batch batch(like, {field});
    for (const Status status : solve(batch.program).status) EXPECT_EQ(status, Status::InvalidData);
  }
}

TEST(Batch, AContradictionIsProvedAndTheOthersAreUntouched) {
  const auto good = programs(7, 540, 6, 4, 2);
  auto spoilt = good;
  spoilt[1].G.row(2) = -spoilt[1].G.row(0);  // two rows
  spoilt[1].h[2] = -spoilt[1].h[0] - 1;
  spoilt[2].G.row(1).setConstant(-1);  // a row and bounds
  spoilt[2].h[1] = -spoilt[2].ub.sum() - 1;
  spoilt[3].A.row(1) = spoilt[3].A.row(0);  // two equalities
  spoilt[3].b[1] = spoilt[3].b[0] + 1;
  spoilt[4].G.row(0).setZero();  // 0 <= -1
  spoilt[4].h[0] = -1;
  spoilt[5].G.row(3) = spoilt[5].A.row(1);  // a row and an equality
  spoilt[5].h[3] = spoilt[5].b[1] - 0.1;
  const Batch batch(spoilt);
  const auto solution = solve(batch.program);
  for (Index i = 0; i < batch.size(); ++i) {
    if (i == 0 || i == 6) {
      EXPECT_EQ(solution.status[at(i)], Status::Solved);
      expect_equal(column_of(solution.point, i), solve(good[at(i)]), 1e-12);
      continue;
    }
    EXPECT_EQ(solution.status[at(i)], Status::PrimalInfeasible) << i;
    const auto user = detail::normalised(spoilt[at(i)]);
    Point proof = column_of(solution.point, i);
    const Vector z_box = proof.z_box;
    EXPECT_TRUE(detail::CertificateCheck<DenseMatrix>(user).proves_primal_infeasible(user, proof)) << i;
    EXPECT_LT((z_box - proof.z_box).norm(), 1e-9 * (1 + proof.z_box.norm())) << i;
    EXPECT_GE(solution.point.z.col(i).minCoeff(), 0);
  }
}

/// One of each sort of P; all have the same shape.
std::vector<QuadraticProgram<>> definite_and_not() {
  auto sorts = programs(6, 560, 5, 4, 1);
  const Vector v = Random(3).normals(5);
  sorts[1].P = v * v.transpose();                                             // semidefinite
  sorts[2].P = v * v.transpose() + 1e-12 * DenseMatrix::Identity(5, 5);       // nearly so
  sorts[3].P.setZero();                                                       // a linear program
  sorts[4].P = DenseMatrix(Vector{{1.0, 1.0, -1.0, 1.0, 1.0}}.asDiagonal());  // indefinite
  return sorts;
}

TEST(Batch, APThatIsNotSafelyDefiniteIsHandedOn) {
  const Batch batch(definite_and_not());
  const auto solution = solve(batch.program);
  for (const Index i : {0, 1, 2, 3, 5}) {
    const auto user = detail::normalised(batch.instances[at(i)]);
    EXPECT_EQ(solution.status[at(i)], Status::Solved) << i;
    const Point v = column_of(solution.point, i);
    EXPECT_TRUE(detail::ResidualCheck<DenseMatrix>(user)(user, v).below(1e-8)) << i;
  }
  EXPECT_EQ(solution.status[4], Status::NonConvex);
  for (const auto& qp : definite_and_not()) {
    const Batch shared(std::vector<QuadraticProgram<>>(3, qp), matrices);
    for (const Status status : solve(shared.program).status) EXPECT_EQ(status, solve(qp).status);
  }
}

TEST(Batch, AnObjectiveWithoutBoundIsReported) {
  auto like = programs(3, 570, 4, 0, 1, false);
  like[1].P.setZero();
  const Batch batch(like);
  const auto solution = solve(batch.program);
  EXPECT_EQ(solution.status, (std::vector{Status::Solved, Status::DualInfeasible, Status::Solved}));
}

TEST(Batch, OfZeroInstancesHasNothing) {
  Batch batch(programs(2, 580, 4, 3, 1), matrices);
  batch.program.size = 0;
  for (const Field field : {Field::q, Field::h, Field::b, Field::lb, Field::ub})
    batch.program[field].count = 0;
  const auto solution = solve(batch.program);
  EXPECT_EQ(solution.point.x.rows(), 4);
  EXPECT_EQ(solution.point.x.cols(), 0);
  EXPECT_TRUE(solution.status.empty());
  const Gradients gradients(batch.program, solution, {});
  EXPECT_TRUE(gradients.of(Field::P, 0).isZero(0));
  EXPECT_TRUE(gradients.of(Field::G, 0).isZero(0));
  EXPECT_EQ(jvp(batch.program, solution, batch.program).x.cols(), 0);
  EXPECT_TRUE(jacobian(batch.program, solution, Field::b).empty());
}

TEST(Batch, AnEarlierSolutionNeedsNoChange) {
  const Batch own(programs(37, 600, 10, 8, 2));
  const Batch shared(with_one_set_of_matrices(programs(37, 700, 10, 8, 2)), matrices);
  for (const Batch* batch : {&own, &shared}) {
    const auto cold = solve(batch->program);
    const auto warm = solve(batch->program, {}, cold.point);
    for (Index i = 0; i < batch->size(); ++i) {
      EXPECT_EQ(warm.iterations[at(i)], 0) << i;
      expect_equal(column_of(warm.point, i), column_of(cold.point, i), 1e-13);
    }
  }
}

TEST(Batch, ASolutionOfANearbyProblemNeedsFewChanges) {
  Random random(4);
  auto moved = programs(37, 800, 10, 8, 2);
  const auto before = solve(Batch(moved).program);
  for (auto& qp : moved) {
    qp.q += 0.01 * random.normals(10);
    qp.P *= 1.01;
    qp.h.array() += 0.01;
  }
  const Batch after(moved);
  const auto cold = solve(after.program);
  const auto warm = solve(after.program, {}, before.point);
  std::int64_t changes = 0;
  std::int64_t from_nothing = 0;
  for (Index i = 0; i < after.size(); ++i) {
    changes += warm.iterations[at(i)];
    from_nothing += cold.iterations[at(i)];
    expect_equal(column_of(warm.point, i), column_of(cold.point, i), 1e-12);
  }
  EXPECT_LT(4 * changes, from_nothing);
}

TEST(Batch, AStartMayKnowNothingOrLimitsThatAreGone) {
  auto like = programs(8, 900, 6, 5, 1);
  for (auto& qp : like) qp.q *= 4;
  const auto before = solve(Batch(like).program);
  for (auto& qp : like) {
    qp.h.setConstant(infinity);
    qp.lb.head(3).setConstant(-infinity);
    qp.ub.tail(4).setConstant(infinity);
  }
  const Batch after(like);
  PointBlock start = before.point;
  for (DenseMatrix* part : {&start.x, &start.y, &start.z, &start.z_box}) part->col(2).setConstant(nan);
  const auto cold = solve(after.program);
  const auto warm = solve(after.program, {}, start);
  for (Index i = 0; i < after.size(); ++i) {
    EXPECT_EQ(warm.status[at(i)], Status::Solved) << i;
    expect_equal(column_of(warm.point, i), column_of(cold.point, i), 1e-12);
  }
}

/// Numbers at the ends of what a double can hold, in every field.
std::vector<QuadraticProgram<>> extremes() {
  std::vector<QuadraticProgram<>> result;
  for (const Field field : all_fields)
    for (const double factor : {0.0, 1e-300, 1e-160, 1e160, 1e300}) {
      auto qp = random_program(950, 5, 4, 2, true);
      with_field(qp, field, [&](auto& own) { own *= factor; });
      if (qp.lb[0] > qp.ub[0]) qp.lb.swap(qp.ub);
      result.push_back(qp);
    }
  return result;
}

TEST(Batch, NumbersNeverThrowAndWhatIsCalledSolvedIsSolved) {
  const Batch batch(extremes());
  BatchSolution solution;
  ASSERT_NO_THROW(solution = solve(batch.program, {.max_iterations = 200}));
  for (Index i = 0; i < batch.size(); ++i) {
    if (solution.status[at(i)] != Status::Solved) continue;
    const auto user = detail::normalised(batch.instances[at(i)]);
    const Point v = column_of(solution.point, i);
    EXPECT_TRUE(detail::ResidualCheck<DenseMatrix>(user)(user, v).below(1e-8)) << i;
  }
  Random random(951);
  const PointBlock bar = random_bars(random, batch.program);
  EXPECT_NO_THROW(Gradients(batch.program, solution, cotangent(bar)));
  EXPECT_NO_THROW((void)jvp(batch.program, solution, batch.program));
  EXPECT_NO_THROW((void)jacobian(batch.program, solution, Field::b));
}

}  // namespace
}  // namespace altdiff::test
