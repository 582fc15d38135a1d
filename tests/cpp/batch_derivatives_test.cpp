#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "batches.hpp"
#include "linalg/at.hpp"

namespace altdiff::test {
namespace {

using detail::at;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Programs that differ a little: their fields may be shared, or not.
std::vector<QuadraticProgram<>> neighbours(Index count, unsigned seed, Index n = 6, Index m = 5,
                                           Index p = 2) {
  Random random(seed);
  const auto centre = random_program(seed, n, m, p, true);
  std::vector<QuadraticProgram<>> result(at(count), centre);
  for (auto& qp : result) {
    qp.q = 2 * random.normals(n);
    qp.P += 0.1 * random.uniform() * DenseMatrix::Identity(n, n);
    for (double& value : qp.h) value += 0.1 * random.uniform();
    qp.G += 0.01 * random.normals(m, n);
    qp.A += 0.01 * random.normals(p, n);
    qp.b = qp.A * (0.5 * (qp.lb + qp.ub));
  }
  return result;
}

void expect_near(const DenseMatrix& X, const DenseMatrix& expected, double tolerance) {
  ASSERT_EQ(X.size(), expected.size());
  EXPECT_LT((X - expected).cwiseAbs().maxCoeff(), tolerance * std::max(1.0, expected.cwiseAbs().maxCoeff()));
}

/// The gradient of every array is the sum of the gradients of those that use it.
void expect_sums_of_a_loop(const Batch& batch, unsigned seed, double tolerance = 1e-10) {
  Random random(seed);
  const PointBlock bar = random_bars(random, batch.program);
  const auto solution = solve(batch.program);
  const Gradients gradients(batch.program, solution, cotangent(bar));
  for (const Field field : all_fields) {
    const BatchField& own = batch.program[field];
    if (own.data == nullptr) continue;
    std::vector<DenseMatrix> sums(at(own.count), DenseMatrix::Zero(0, 0));
    for (Index array = 0; array < own.count; ++array)
      sums[at(array)] =
          DenseMatrix::Zero(gradients.of(field, array).rows(), gradients.of(field, array).cols());
    for (Index i = 0; i < batch.size(); ++i) {
      const auto& qp = batch.instances[at(i)];
      const auto one = solve(qp);
      ASSERT_EQ(one.status, Status::Solved);
      sums[at(own.of(i))] += value_of(vjp(qp, one, column_of(bar, i)), field);
    }
    for (Index array = 0; array < own.count; ++array)
      expect_near(gradients.of(field, array), sums[at(array)], tolerance);
  }
}

TEST(BatchDerivatives, TheGradientOfAnArrayIsTheSumOverThoseThatUseIt) {
  expect_sums_of_a_loop(Batch(neighbours(7, 1)), 1);
  expect_sums_of_a_loop(Batch(neighbours(35, 2), {Field::P, Field::G, Field::A}), 2);
  expect_sums_of_a_loop(Batch(neighbours(5, 3), {Field::P, Field::h, Field::lb}), 3);
  expect_sums_of_a_loop(Batch(neighbours(5, 4), {Field::q, Field::G, Field::ub, Field::b, Field::A}), 4);
  expect_sums_of_a_loop(Batch(neighbours(3, 5), {all_fields.begin(), all_fields.end()}), 5);
  expect_sums_of_a_loop(Batch(neighbours(3, 6, 1, 1, 0)), 6);
  expect_sums_of_a_loop(Batch(neighbours(3, 7, 4, 0, 0), {Field::P}), 7);
}

TEST(BatchDerivatives, AnArrayThatNobodyUsesHasNoGradient) {
  Batch batch(neighbours(6, 8), {Field::A});
  batch.map(Field::P, {0, 2, 2, 0, 0, 2}, 3);
  batch.map(Field::G, {1, 1, 0, 1, 0, 0}, 2);
  batch.map(Field::h, {3, 3, 0, 1, 1, 1}, 4);
  expect_sums_of_a_loop(batch, 8);
  Random random(9);
  const PointBlock bar = random_bars(random, batch.program);
  const Gradients gradients(batch.program, solve(batch.program), cotangent(bar));
  EXPECT_TRUE(gradients.of(Field::P, 1).isZero(0));
  EXPECT_TRUE(gradients.of(Field::h, 2).isZero(0));
}

/// Normal directions of all fields, shared where `like` shares them.
Batch direction_of(Random& random, const Batch& like, const std::vector<Field>& shared) {
  std::vector<QuadraticProgram<>> directions = like.instances;
  for (auto& d : directions)
    for (const Field field : all_fields)
      with_field(d, field, [&](auto& own) { own = random.normals(own.rows(), own.cols()); });
  return Batch(std::move(directions), shared);
}

/// A batch a step further along a direction.
Batch moved(const Batch& batch, const Batch& direction, double t) {
  std::vector<QuadraticProgram<>> instances = batch.instances;
  for (std::size_t i = 0; i < instances.size(); ++i)
    for (const Field field : all_fields)
      with_field(instances[i], field, [&](auto& own) { own += t * value_of(direction.instances[i], field); });
  return Batch(std::move(instances));
}

TEST(BatchDerivatives, TheTangentIsTheCentralDifference) {
  const std::vector<Field> shared{Field::P, Field::A, Field::h};
  for (unsigned seed = 10; seed < 16; ++seed) {
    Random random(seed);
    const Batch batch(neighbours(7, seed), shared);
    const Batch direction = direction_of(random, batch, shared);
    const PointBlock tangent = jvp(batch.program, solve(batch.program), direction.program);
    const double t = 1e-6;
    const auto ahead = solve(moved(batch, direction, t).program);
    const auto behind = solve(moved(batch, direction, -t).program);
    expect_near(tangent.x, (ahead.point.x - behind.point.x) / (2 * t), 1e-6);
    expect_near(tangent.y, (ahead.point.y - behind.point.y) / (2 * t), 1e-6);
    expect_near(tangent.z, (ahead.point.z - behind.point.z) / (2 * t), 1e-6);
    expect_near(tangent.z_box, (ahead.point.z_box - behind.point.z_box) / (2 * t), 1e-6);
  }
}

TEST(BatchDerivatives, TheAdjointIsTheTransposeOfTheTangent) {
  const std::vector<Field> shared{Field::G, Field::q};
  Random random(16);
  const Batch batch(neighbours(9, 16), shared);
  const Batch direction = direction_of(random, batch, shared);
  const PointBlock bar = random_bars(random, batch.program);
  const auto solution = solve(batch.program);
  const PointBlock t = jvp(batch.program, solution, direction.program);
  const double pushed = bar.x.cwiseProduct(t.x).sum() + bar.y.cwiseProduct(t.y).sum() +
                        bar.z.cwiseProduct(t.z).sum() + bar.z_box.cwiseProduct(t.z_box).sum();
  const Gradients gradients(batch.program, solution, cotangent(bar));
  double pulled = 0;
  for (const Field field : all_fields)
    for (Index array = 0; array < batch.program[field].count; ++array)
      pulled +=
          gradients.of(field, array).cwiseProduct(value_of(direction.instances[at(array)], field)).sum();
  EXPECT_NEAR(pulled, pushed, 1e-10 * std::max(1.0, std::abs(pushed)));
}

TEST(BatchDerivatives, TheJacobianHoldsTheTangentsOfAllUnitDirections) {
  const Batch batch(neighbours(5, 17), {Field::P});
  const auto solution = solve(batch.program);
  const Index n = batch.program.n;
  for (const Field field : {Field::q, Field::h, Field::b, Field::lb, Field::ub}) {
    const auto J = jacobian(batch.program, solution, field);
    const Index columns = static_cast<Index>(J.size()) / (n * batch.size());
    ASSERT_EQ(columns, value_of(batch.instances[0], field).size());
    for (Index c = 0; c < columns; ++c) {
      const Vector unit = Vector::Unit(columns, c);
      BatchProgram dot{.size = batch.size(), .n = n, .m = batch.program.m, .p = batch.program.p};
      dot[field].data = unit.data();
      const PointBlock tangent = jvp(batch.program, solution, dot);
      for (Index i = 0; i < batch.size(); ++i)
        for (Index row = 0; row < n; ++row)
          EXPECT_NEAR(J[at((i * n + row) * columns + c)], tangent.x(row, i), 1e-12);
    }
  }
  EXPECT_THROW((void)jacobian(batch.program, solution, Field::P), std::invalid_argument);
}

TEST(BatchDerivatives, TheObjectivesGradientIsTheCentralDifference) {
  Random random(18);
  const std::vector<Field> shared{Field::P, Field::G, Field::lb};
  const Batch batch(neighbours(5, 18), shared);
  const Batch direction = direction_of(random, batch, shared);
  const Vector weights = random.normals(5);
  const Gradients gradients(batch.program, solve(batch.program), {.objective = weights.data()});
  double slope = 0;
  for (const Field field : all_fields)
    for (Index array = 0; array < batch.program[field].count; ++array)
      slope += gradients.of(field, array).cwiseProduct(value_of(direction.instances[at(array)], field)).sum();
  const double t = 1e-6;
  const Vector difference = solve(moved(batch, direction, t).program).objective -
                            solve(moved(batch, direction, -t).program).objective;
  EXPECT_NEAR(slope, weights.dot(difference) / (2 * t), 1e-6 * std::max(1.0, std::abs(slope)));
}

/// Instances 1 and 3 fail, one of them with a certificate.
Batch with_failures(const std::vector<Field>& shared = {}) {
  auto instances = neighbours(5, 19);
  instances[1].q[0] = nan;
  instances[3].h[0] = -1e6;
  instances[3].h[1] = infinity;
  return Batch(instances, shared);
}

TEST(BatchDerivatives, AFailedInstanceGetsWhatStandsForItsDerivative) {
  const Batch batch = with_failures();
  const auto solution = solve(batch.program);
  ASSERT_EQ(solution.status[1], Status::InvalidData);
  ASSERT_EQ(solution.status[3], Status::PrimalInfeasible);
  Random random(20);
  const PointBlock bar = random_bars(random, batch.program);
  for (const double value : {nan, 0.0}) {
    const Missing missing{.value = value};
    const Gradients gradients(batch.program, solution, cotangent(bar), missing);
    const PointBlock tangent = jvp(batch.program, solution, batch.program, missing);
    const auto J = jacobian(batch.program, solution, Field::b, missing);
    for (Index i = 0; i < 5; ++i) {
      const bool failed = i == 1 || i == 3;
      const auto as_expected = [&](const DenseMatrix& X) {
        if (!failed) return X.allFinite() && !X.isZero(0);
        return std::isnan(value) ? X.array().isNaN().all() : X.isZero(0);
      };
      for (const Field field : all_fields) EXPECT_TRUE(as_expected(gradients.of(field, i)) || !failed) << i;
      EXPECT_TRUE(as_expected(gradients.of(Field::P, i))) << i;
      EXPECT_EQ(std::isnan(tangent.x(0, i)), failed && std::isnan(value)) << i;
      EXPECT_EQ(std::isnan(J[at(i * 12)]), failed && std::isnan(value)) << i;
    }
  }
}

TEST(BatchDerivatives, AnInstanceWithoutCotangentAddsNothingToASharedGradient) {
  const std::vector<Field> shared{Field::P, Field::G, Field::A, Field::ub};
  const Batch batch = with_failures(shared);
  const auto solution = solve(batch.program);
  Random random(21);
  PointBlock bar = random_bars(random, batch.program);
  for (DenseMatrix* part : {&bar.x, &bar.y, &bar.z, &bar.z_box})
    for (const Index i : {1, 3}) part->col(i).setZero();
  const Gradients gradients(batch.program, solution, cotangent(bar));
  const auto good = std::vector{batch.instances[0], batch.instances[2], batch.instances[4]};
  const Batch without(good, shared);
  PointBlock rest = random_bars(random, without.program);
  for (Index i = 0; i < 3; ++i) {
    rest.x.col(i) = bar.x.col(2 * i);
    rest.y.col(i) = bar.y.col(2 * i);
    rest.z.col(i) = bar.z.col(2 * i);
    rest.z_box.col(i) = bar.z_box.col(2 * i);
  }
  const Gradients expected(without.program, solve(without.program), cotangent(rest));
  for (const Field field : shared) expect_near(gradients.of(field, 0), expected.of(field, 0), 1e-11);
  EXPECT_TRUE(gradients.of(Field::q, 1).isZero(0) && gradients.of(Field::h, 3).isZero(0));
}

TEST(BatchDerivatives, ACotangentThatIsNoNumberSpoilsItsInstanceOnly) {
  const Batch batch(neighbours(4, 22));
  const auto solution = solve(batch.program);
  Random random(23);
  PointBlock bar = random_bars(random, batch.program);
  const Gradients expected(batch.program, solution, cotangent(bar));
  bar.z(0, 2) = nan;
  const Gradients gradients(batch.program, solution, cotangent(bar));
  for (const Field field : {Field::P, Field::q, Field::G, Field::b})
    for (Index i = 0; i < 4; ++i) {
      if (i == 2) {
        EXPECT_TRUE(gradients.of(field, i).array().isNaN().all());
      } else {
        expect_near(gradients.of(field, i), expected.of(field, i), 1e-12);
      }
    }
}

TEST(BatchDerivatives, OfInstancesThatWereHandedOnAreThoseOfALoop) {
  auto instances = neighbours(4, 24);
  const Vector v = Random(24).normals(6);
  for (const std::size_t i : {1U, 2U}) instances[i].P = v * v.transpose();
  instances[2].P += 1e-13 * DenseMatrix::Identity(6, 6);
  for (const std::size_t i : {1U, 2U}) instances[i].q = 10 * Random(25).normals(6);  // a vertex: x is smooth
  expect_sums_of_a_loop(Batch(instances), 26, 1e-7);
}

TEST(BatchDerivatives, TheFlatPartIsWhatPDoesNotSeeAndNothingWhereXIsUnique) {
  Random random(27);
  const Vector w = random.normals(4);
  std::vector<QuadraticProgram<>> instances(2);
  instances[0] = {.P = DenseMatrix::Identity(4, 4), .q = -w};
  instances[1] = {.P = w * w.transpose(), .q = -w};
  const Batch batch(instances);
  const DenseMatrix v = random.normals(4, 2);
  DenseMatrix expected = DenseMatrix::Zero(4, 2);
  expected.col(1) = v.col(1) - w * (w.dot(v.col(1)) / w.squaredNorm());
  expect_near(flat_part(solve(batch.program), v), expected, 1e-11);
  for (Index i = 0; i < 2; ++i)
    expect_near(flat_part(solve(instances[at(i)]), Vector(v.col(i))), expected.col(i), 1e-11);
}

}  // namespace
}  // namespace altdiff::test
