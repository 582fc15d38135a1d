#include <gtest/gtest.h>

#include "batch/linearisation.hpp"
#include "batches.hpp"
#include "linalg/at.hpp"

namespace altdiff::test {
namespace {

using detail::at;
Batch tiny_programs(unsigned seed, Index count, Index n, Index m, Index p, bool bounds) {
  std::vector<QuadraticProgram<>> programs;
  for (Index i = 0; i < count; ++i)
    programs.push_back(random_program(seed + static_cast<unsigned>(i), n, m, p, bounds));
  return Batch(programs, {});
}

Index in_lanes(const BatchSolution& solution) {
  return std::ranges::count_if(solution.linearisation->instances,
                               [](const auto& instance) { return instance.quartet != nullptr; });
}

void expect_equal_to_one_by_one(const Batch& batch) {
  const auto solution = solve(batch.program, {});
  for (Index i = 0; i < batch.size(); ++i) {
    const auto one = solve(batch.instances[at(i)], {});
    ASSERT_EQ(solution.status[at(i)], one.status) << i;
    EXPECT_LT((solution.point.x.col(i) - one.x).cwiseAbs().maxCoeff(), 1e-11) << i;
    EXPECT_LT(solution.primal_residual[i] + solution.dual_residual[i] + solution.duality_gap[i], 1e-12) << i;
  }
}

TEST(Quartet, SolvesTinyProgramsOfEveryShapeAsOneByOne) {
  for (Index n = 1; n <= 16; ++n)
    for (const Index count : {2, 3, 4, 7}) {
      expect_equal_to_one_by_one(tiny_programs(100, count, n, n, n / 3, false));
      expect_equal_to_one_by_one(tiny_programs(200, count, n, n / 2, n / 4, true));
      expect_equal_to_one_by_one(tiny_programs(300, count, n, 0, 0, true));
    }
}

TEST(Quartet, TakesMostOfTheEasyOnes) {
  const Batch batch = tiny_programs(400, 64, 10, 10, 4, false);
  EXPECT_GT(in_lanes(solve(batch.program, {})), 48);
}

TEST(Quartet, IsNotForProgramsThatShareTheirMatricesOrAreLarger) {
  EXPECT_EQ(in_lanes(solve(tiny_programs(500, 8, 17, 8, 2, false).program, {})), 0);
  std::vector<QuadraticProgram<>> programs(8, random_program(600, 8, 6, 2));
  EXPECT_EQ(in_lanes(solve(Batch(programs, {Field::P, Field::G, Field::A}).program, {})), 0);
}

TEST(Quartet, LeavesWhatIsHardToOthersWithoutHarmToItsNeighbours) {
  std::vector<QuadraticProgram<>> programs;
  for (unsigned i = 0; i < 8; ++i) programs.push_back(random_program(700 + i, 6, 5, 2));
  programs[1].A.row(1) = programs[1].A.row(0);  // redundant
  programs[1].b[1] = programs[1].b[0];
  programs[2].A.row(1) = programs[2].A.row(0);  // a contradiction
  programs[2].b[1] = programs[2].b[0] + 1;
  programs[4].P.setZero();  // not definite
  programs[4].P(0, 0) = 1;
  programs[5].q[3] = std::numeric_limits<double>::quiet_NaN();
  const Batch batch(programs, {});
  const auto solution = solve(batch.program, {});
  for (const Index hard : {1, 2, 4, 5})
    EXPECT_EQ(solution.linearisation->instances[at(hard)].quartet, nullptr) << hard;
  EXPECT_EQ(solution.status[1], Status::Solved);
  EXPECT_EQ(solution.status[2], Status::PrimalInfeasible);
  EXPECT_EQ(solution.status[5], Status::InvalidData);
  for (const Index easy : {0, 3, 6, 7}) {
    const auto one = solve(programs[at(easy)], {});
    EXPECT_EQ(solution.status[at(easy)], Status::Solved);
    EXPECT_LT((solution.point.x.col(easy) - one.x).cwiseAbs().maxCoeff(), 1e-11) << easy;
  }
}

}  // namespace
}  // namespace altdiff::test
