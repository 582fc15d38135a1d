#include <gtest/gtest.h>

#include <altdiff/altdiff.hpp>
#include <cmath>
#include <limits>

#include "engines/dual_newton.hpp"
#include "objectives/phi.hpp"
#include "random_problems.hpp"

namespace altdiff::test {
namespace {

constexpr Index n = 5;

/// f(x; a) = sum log cosh(x - a), a type that the library does not know.
struct LogCosh {
  using Hessian = DenseMatrix;
  struct Tangent {
    DenseMatrix a{};
    [[nodiscard]] Index directions() const { return a.cols(); }
  };
  static constexpr bool constant_hessian = false;

  Vector a;

  [[nodiscard]] Vector start() const { return Vector::Zero(a.size()); }
  [[nodiscard]] double value(const Vector& x) const { return (x - a).array().cosh().log().sum(); }
  [[nodiscard]] double largest_step(const Vector& /*x*/, const Vector& /*d*/) const {
    return std::numeric_limits<double>::infinity();
  }
  void gradient(const Vector& x, Vector& g) const { g = (x - a).array().tanh(); }
  void hessian(const Vector& x, DenseMatrix& H) const { H = curvature(x).asDiagonal(); }
  void add_cross(const Vector& x, const Tangent& dtheta, Eigen::Ref<DenseMatrix> block) const {
    block -= curvature(x).asDiagonal() * dtheta.a;
  }
  [[nodiscard]] Vector curvature(const Vector& x) const { return (x - a).array().cosh().square().inverse(); }
};

Constraints<DenseMatrix> some_constraints() {
  const auto qp = random_program(3, n, 3, 1, true);
  return {.A = qp.A, .b = qp.b, .G = qp.G, .h = qp.h, .lb = qp.lb, .ub = qp.ub};
}

/// The constraints as the fields of a batch of one; the rows of matrices are copied into `A` and `G`.
struct OneInstance {
  using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  explicit OneInstance(Constraints<DenseMatrix> own)
      : constraints(std::move(own)), A(constraints.A), G(constraints.G) {
    program.constraints = {.size = 1, .n = n, .m = constraints.h.size(), .p = constraints.b.size()};
    const auto set = [&](Field field, const auto& numbers) {
      if (numbers.size() > 0) program.constraints[field] = {.data = numbers.data()};
    };
    set(Field::A, A);
    set(Field::b, constraints.b);
    set(Field::G, G);
    set(Field::h, constraints.h);
    set(Field::lb, constraints.lb);
    set(Field::ub, constraints.ub);
  }

  Constraints<DenseMatrix> constraints;
  RowMatrix A, G;
  SmoothProgram program{};
};

TEST(Smooth, AnObjectiveOfTheUsersOwnIsSolvedAndDifferentiated) {
  const LogCosh f{.a = Vector::LinSpaced(n, -1, 2)};
  const auto constraints = some_constraints();
  const auto solution = solve(f, constraints);
  ASSERT_EQ(solution.status, Status::Solved);
  Vector g;
  f.gradient(solution.x, g);
  g += constraints.A.transpose() * solution.y + constraints.G.transpose() * solution.z + solution.z_box;
  EXPECT_LT(g.lpNorm<Eigen::Infinity>(), 1e-12);
  const Vector x_bar = Vector::LinSpaced(n, 1, -2);
  const auto bar = vjp(solution, Point{.x = x_bar});
  const double step = 1e-6;
  for (Index i = 0; i < n; ++i) {
    auto above = f;
    auto below = f;
    above.a[i] += step;
    below.a[i] -= step;
    const double difference =
        x_bar.dot(solve(above, constraints).x - solve(below, constraints).x) / (2 * step);
    EXPECT_NEAR(-f.curvature(solution.x)[i] * bar.u[i], difference, 1e-7);
  }
  auto above = constraints;
  auto below = constraints;
  above.A(0, 1) += step;
  below.A(0, 1) -= step;
  EXPECT_NEAR(bar.constraints.A(0, 1), x_bar.dot(solve(f, above).x - solve(f, below).x) / (2 * step), 1e-7);
}

TEST(Smooth, ThePapersAlgorithmServesATypeThatTheLibraryDoesNotKnow) {
  const LogCosh f{.a = Vector::LinSpaced(n, -1, 2)};
  const auto constraints = some_constraints();
  const auto result = alternating_differentiation(f, constraints, {.a = DenseMatrix::Identity(n, n)}, {},
                                                  {.tolerance = 1e-11, .stopping = Stopping::Residual});
  const auto solution = solve(f, constraints);
  EXPECT_LT((result.x - solution.x).norm(), 1e-8);
  for (Index i = 0; i < n; ++i) {
    const auto bar = vjp(solution, Point{.x = Vector::Unit(n, i)});
    const Vector row = -f.curvature(solution.x).cwiseProduct(bar.u);
    EXPECT_LT((result.jacobian.row(i).transpose() - row).norm(), 1e-6);
  }
}

TEST(Smooth, TheTermsOfABatchAreAnObjectiveToo) {
  OneInstance one(some_constraints());
  const Vector offset = Vector::LinSpaced(n, -1, 2);
  const Vector q = Vector::LinSpaced(n, 0.3, -0.2);
  const std::vector<Term> terms{{.kind = TermKind::PseudoHuber, .rows = n, .offset = {.data = offset.data()}},
                                {.kind = TermKind::Quadratic, .q = {.data = q.data()}}};
  one.program.terms = terms;
  const auto batch = solve(one.program);
  const auto single = solve(TermObjective(terms, n), one.constraints);
  ASSERT_EQ(batch.status[0], Status::Solved);
  ASSERT_EQ(single.status, Status::Solved);
  EXPECT_LT((batch.point.x.col(0) - single.x).norm(), 1e-12);
  EXPECT_NEAR(batch.objective[0], TermObjective(terms, n).value(single.x), 1e-13);
}

TEST(Smooth, ATangentOfTheWrongSizeNamesTheSize) {
  const Quadratic<DenseMatrix> f{.P = DenseMatrix::Identity(n, n), .q = Vector::Zero(n)};
  EXPECT_THROW(
      (void)alternating_differentiation(f, some_constraints(), {.q = DenseMatrix::Identity(2, 2)}, {}),
      std::invalid_argument);
}

TEST(Smooth, TheUsersFunctionIsToldWhichInstancesWait) {
  constexpr Index size = 3;
  SmoothProgram program{.constraints = {.size = size, .n = 1}};
  std::vector<Index> asked(size);
  program.evaluate = [&](const Request& request) {
    for (Index k = 0; k < request.count; ++k) {
      const Index i = request.instances[k];
      ++asked[static_cast<std::size_t>(i)];
      // The first is quadratic, and has its answer after a step; e^x - (i + 1) x takes more.
      const double x = request.x[k];
      const double slope = static_cast<double>(i) + 1;
      request.value[k] = i == 0 ? 0.5 * x * x - x : std::exp(x) - slope * x;
      request.gradient[k] = i == 0 ? x - 1 : std::exp(x) - slope;
      request.hessian[k] = i == 0 ? 1 : std::exp(x);
    }
  };
  const auto solution = solve(program);
  EXPECT_NEAR(solution.point.x(0, 0), 1, 1e-14);
  EXPECT_NEAR(solution.point.x(0, 1), std::log(2.0), 1e-14);
  EXPECT_NEAR(solution.point.x(0, 2), std::log(3.0), 1e-14);
  EXPECT_LT(asked[0], asked[2]);
}

TEST(Smooth, DerivativesOfPhiAreCentralDifferences) {
  const Eigen::ArrayXd t = Eigen::ArrayXd::LinSpaced(7, 0.1, 0.9);
  constexpr double step = 1e-6;
  for (const TermKind kind :
       {TermKind::Square, TermKind::Entropy, TermKind::NegativeLog, TermKind::Softplus, TermKind::Exp,
        TermKind::PseudoHuber, TermKind::Power, TermKind::BinaryEntropy}) {
    const detail::Phi phi{.kind = kind, .power = 2.5};
    Eigen::ArrayXd value;
    Eigen::ArrayXd first;
    Eigen::ArrayXd second;
    Eigen::ArrayXd above;
    Eigen::ArrayXd slope_above;
    Eigen::ArrayXd below;
    Eigen::ArrayXd slope_below;
    Eigen::ArrayXd unused;
    phi.evaluate(t, value, first, second);
    phi.evaluate(t + step, above, slope_above, unused);
    phi.evaluate(t - step, below, slope_below, unused);
    EXPECT_LT(((above - below) / (2 * step) - first).abs().maxCoeff(), 1e-7);
    EXPECT_LT(((slope_above - slope_below) / (2 * step) - second).abs().maxCoeff(), 1e-5);
    if (!phi.invertible()) continue;
    phi.inverse(first, unused);
    EXPECT_LT((unused - t).abs().maxCoeff(), 1e-14);
  }
}

TEST(Smooth, SoftplusAndPseudoHuberKeepTheirDigitsFarOut) {
  const Eigen::ArrayXd t = Eigen::ArrayXd::LinSpaced(2, -700, 700);
  Eigen::ArrayXd value;
  Eigen::ArrayXd first;
  Eigen::ArrayXd second;
  detail::Phi{.kind = TermKind::Softplus}.evaluate(t, value, first, second);
  EXPECT_DOUBLE_EQ(value[0], std::exp(-700.0));
  EXPECT_DOUBLE_EQ(first[0], std::exp(-700.0));
  EXPECT_DOUBLE_EQ(value[1], 700);
  const Eigen::ArrayXd small = Eigen::ArrayXd::Constant(1, 1e-9);
  detail::Phi{.kind = TermKind::PseudoHuber}.evaluate(small, value, first, second);
  EXPECT_DOUBLE_EQ(value[0], 0.5e-18);
}

TEST(Smooth, TheDualMethodSolvesTheSoftmax) {
  OneInstance one({.A = DenseMatrix::Ones(1, n), .b = Vector::Ones(1)});
  const Vector q = Vector::LinSpaced(n, -3, 3);
  one.program.terms = {{.kind = TermKind::Quadratic, .q = {.data = q.data()}},
                       {.kind = TermKind::Entropy, .rows = n}};
  const auto solution = solve(one.program);
  ASSERT_EQ(solution.status[0], Status::Solved);
  const Vector expected = (-q).array().exp() / (-q).array().exp().sum();
  EXPECT_LT((solution.point.x.col(0) - expected).norm(), 1e-15);
}

}  // namespace
}  // namespace altdiff::test
