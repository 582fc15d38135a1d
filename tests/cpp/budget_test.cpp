#include <gtest/gtest.h>

#include <algorithm>
#include <altdiff/budget.hpp>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "budget/exp.hpp"

namespace altdiff::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kinds{Budget::Sparsemax, Budget::Softmax};

/// One row with limits of each entry's own.
template <class T>
struct Row {
  Budget kind = Budget::Sparsemax;
  std::vector<T> y{}, lower{}, upper{};
  T total = 1;

  [[nodiscard]] BudgetProgram<T> program() const {
    const auto n = static_cast<Index>(y.size());
    return {.kind = kind,
            .rows = 1,
            .n = n,
            .y = y.data(),
            .lower = {.data = lower.data(), .row_stride = n, .stride = 1},
            .upper = {.data = upper.data(), .row_stride = n, .stride = 1},
            .total = {.value = total},
            .num_threads = 1};
  }
};

template <class T>
struct Solved {
  std::vector<T> x;
  BudgetRow state{};
};

template <class T>
Solved<T> solved(const BudgetProgram<T>& program) {
  Solved<T> result{.x = std::vector<T>(static_cast<std::size_t>(program.n))};
  const Index failed = solve(program, result.x.data(), &result.state);
  EXPECT_EQ(failed, result.state.status == 0 ? 0 : 1);
  return result;
}

/// x by bisection for tau, in long double.
template <class T>
std::vector<long double> bisection(const Row<T>& row) {
  const auto value = [&](std::size_t i, long double tau) {
    const long double d = static_cast<long double>(row.y[i]) - tau;
    const long double v = row.kind == Budget::Softmax ? std::exp(d) : d;
    return std::clamp(v, static_cast<long double>(row.lower[i]), static_cast<long double>(row.upper[i]));
  };
  long double low = -3000;
  long double high = 3000;
  for (int k = 0; k < 200; ++k) {
    const long double tau = (low + high) / 2;
    long double sum = 0;
    for (std::size_t i = 0; i < row.y.size(); ++i) sum += value(i, tau);
    (sum > static_cast<long double>(row.total) ? low : high) = tau;
  }
  std::vector<long double> x(row.y.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = value(i, (low + high) / 2);
  return x;
}

template <class T>
Row<T> random_row(std::mt19937_64& random, Budget kind, std::size_t n, double spread) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Row<T> row{.kind = kind};
  double least = 0;
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double lower = uniform(random) < 0.5 ? 0 : uniform(random) / static_cast<double>(n);
    const double upper = lower + (uniform(random) < 0.1 ? 0 : 2 * uniform(random) / static_cast<double>(n));
    row.y.push_back(static_cast<T>(spread * normal(random)));
    row.lower.push_back(static_cast<T>(lower));
    row.upper.push_back(static_cast<T>(upper));
    least += static_cast<double>(row.lower.back());
    most += static_cast<double>(row.upper.back());
  }
  row.total = static_cast<T>(least + (most - least) * uniform(random));
  return row;
}

template <class T>
void expect_bisection(double tolerance) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 400; ++k) {
    const Budget kind = kinds.at(static_cast<std::size_t>(k % 2));
    const std::size_t n = 1 + random() % 70;
    const Row<T> row = random_row<T>(random, kind, n, std::pow(10.0, static_cast<double>(k % 5) - 2));
    const Solved<T> found = solved(row.program());
    ASSERT_EQ(found.state.status, 0) << k;
    const std::vector<long double> expected = bisection(row);
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_NEAR(static_cast<double>(found.x[i]), static_cast<double>(expected[i]), tolerance) << k;
  }
}

TEST(Budget, agrees_with_a_bisection_in_long_double) { expect_bisection<double>(1e-13); }

TEST(Budget, agrees_with_a_bisection_to_the_rounding_of_floats) { expect_bisection<float>(3e-7); }

TEST(Budget, the_exponential_is_right_to_two_units_of_rounding) {
  for (int k = 0; k < 100000; ++k) {
    const double v = 80 - 0.00787 * k;
    const auto d = detail::exp_pack<double>(detail::Pack<double>{} + v);
    EXPECT_NEAR(d[0] / std::exp(v), 1, 2 * std::numeric_limits<double>::epsilon()) << v;
    const auto single = static_cast<float>(v);
    const auto f = detail::exp_pack<float>(detail::Pack<float>{} + single);
    if (v <= -87) continue;
    EXPECT_NEAR(static_cast<double>(f[3]) / std::exp(static_cast<double>(single)), 1,
                2 * std::numeric_limits<float>::epsilon())
        << v;
  }
  const auto masked = detail::exp_pack<float>(detail::Pack<float>{} - std::numeric_limits<float>::infinity());
  EXPECT_EQ(masked[0], 0);
}

TEST(Budget, derivatives_are_differences_of_solutions) {
  std::mt19937_64 random(2);
  constexpr double h = 1e-6;
  constexpr std::size_t n = 9;
  for (int k = 0; k < 40; ++k) {
    const Budget kind = kinds.at(static_cast<std::size_t>(k % 2));
    Row<double> row = random_row<double>(random, kind, n, 1);
    for (std::size_t i = 0; i < n; ++i) {
      row.lower[i] += 0.01;
      row.upper[i] += 0.02;
    }
    row.total += 0.015 * n;
    const Row<double> dot = random_row<double>(random, kind, n, 1);
    const Solved<double> at = solved(row.program());
    if (at.state.touching > 0) continue;
    std::vector<double> x_dot(n);
    jvp(row.program(), at.x.data(), &at.state,
        {.y = dot.y.data(), .lower = dot.lower.data(), .upper = dot.upper.data(), .total = &dot.total},
        x_dot.data());
    const auto moved = [&](double step) {
      Row<double> next = row;
      for (std::size_t i = 0; i < n; ++i) {
        next.y[i] += step * dot.y[i];
        next.lower[i] += step * dot.lower[i];
        next.upper[i] += step * dot.upper[i];
      }
      next.total += step * dot.total;
      return solved(next.program()).x;
    };
    const auto ahead = moved(h);
    const auto behind = moved(-h);
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(x_dot[i], (ahead[i] - behind[i]) / (2 * h), 1e-7) << k;

    std::array<std::vector<double>, 3> bar;
    bar.fill(std::vector<double>(n));
    double total_bar = 0;
    const std::vector<double>& x_bar = dot.y;
    vjp(row.program(), at.x.data(), &at.state, x_bar.data(),
        {.y = bar[0].data(), .lower = bar[1].data(), .upper = bar[2].data(), .total = &total_bar});
    double left = 0;
    double right = total_bar * dot.total;
    for (std::size_t i = 0; i < n; ++i) {
      left += x_bar[i] * x_dot[i];
      right += bar[0][i] * dot.y[i] + bar[1][i] * dot.lower[i] + bar[2][i] * dot.upper[i];
    }
    EXPECT_NEAR(left, right, 1e-13);
  }
}

TEST(Budget, the_answer_of_a_long_row_does_not_depend_on_threads) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> y(300000);
  for (float& v : y) v = normal(random);
  for (const Budget kind : kinds) {
    for (const float upper : {1.0F, 1e-3F, 5e-6F}) {
      BudgetProgram<float> program{.kind = kind,
                                   .rows = 1,
                                   .n = static_cast<Index>(y.size()),
                                   .y = y.data(),
                                   .upper = {.value = upper},
                                   .num_threads = 1};
      const auto alone = solved(program);
      program.num_threads = 2;
      const auto together = solved(program);
      EXPECT_EQ(alone.x, together.x);
      double sum = 0;
      for (const float v : alone.x) sum += static_cast<double>(v);
      EXPECT_NEAR(sum, 1, 2e-7);
    }
  }
}

TEST(Budget, what_cannot_be_solved_has_a_status_and_leaves_other_rows_alone) {
  const std::vector<double> y{0, 1, nan, 1, -infinity, -infinity, infinity, 0, 3, 4};
  for (const Budget kind : kinds) {
    const BudgetProgram<double> program{.kind = kind, .rows = 5, .n = 2, .y = y.data()};
    std::vector<double> x(10);
    std::vector<BudgetRow> states(5);
    EXPECT_EQ(solve(program, x.data(), states.data()), 3);
    const auto status = [&](std::size_t r) {
      return static_cast<Status>(static_cast<int>(states[r].status));
    };
    EXPECT_EQ(status(0), Status::Solved);
    EXPECT_EQ(status(1), Status::InvalidData);
    EXPECT_EQ(status(2), Status::PrimalInfeasible);
    EXPECT_EQ(status(3), Status::InvalidData);
    EXPECT_EQ(status(4), Status::Solved);
    EXPECT_NEAR(x[8] + x[9], 1, 1e-15);
  }
}

}  // namespace
}  // namespace altdiff::test
