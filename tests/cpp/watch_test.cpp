#include "linalg/watch.hpp"

#include <gtest/gtest.h>

#include <altdiff/altdiff.hpp>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "linalg/parallel_for.hpp"
#include "random_problems.hpp"

namespace altdiff::test {
namespace {

using detail::parallel_for;
using namespace std::chrono_literals;

constexpr double much = 1e9;  // multiplications: worth a look at the clock

struct Enough : std::runtime_error {
  Enough() : std::runtime_error("enough") {}
};

TEST(Watch, LetsEverythingGoOnWhereThereIsNone) {
  EXPECT_EQ(detail::current_watch(), nullptr);
  EXPECT_TRUE(detail::may_go_on(much));
  EXPECT_FALSE(detail::out_of_time());
}

TEST(Watch, SaysWhenTheTimeIsOver) {
  const Watch watch({}, 1e-9);
  EXPECT_FALSE(detail::may_go_on(much));
  EXPECT_THROW(detail::require_time(much), detail::OutOfTime);
  EXPECT_NO_THROW(detail::check_interrupt(much));
  const detail::Overtime solved;
  EXPECT_TRUE(detail::may_go_on(much));
}

TEST(Watch, LooksOnlyWhenThereWasWorkToDo) {
  int polls = 0;
  const Watch watch([&] { ++polls; });
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(detail::may_go_on(1));
  EXPECT_EQ(polls, 0);
  EXPECT_TRUE(detail::may_go_on(much));
  EXPECT_EQ(polls, 1);
}

TEST(Watch, NestsAndNeverHasMoreTimeThanAnOuterOne) {
  int polls = 0;
  const Watch outer([&] { ++polls; }, 1e-9);
  {
    const Watch inner({}, 1e3);
    EXPECT_TRUE(detail::out_of_time());
    EXPECT_EQ(polls, 1);
  }
  EXPECT_EQ(detail::current_watch(), &outer);
}

TEST(Watch, StopsWorkersWhoseCallerIsInterruptedWhileItWaits) {
  std::atomic<bool> caller_left = false;
  const auto caller = std::this_thread::get_id();
  const Watch watch([&] {
    if (caller_left) throw Enough();
  });
  std::atomic<int> stopped = 0;
  const auto body = [&](Index) {
    if (std::this_thread::get_id() == caller) {
      std::this_thread::sleep_for(5ms);
      caller_left = true;
      return;
    }
    try {
      for (;;) {  // for ever, unless somebody says stop
        detail::check_interrupt(much);
        std::this_thread::sleep_for(100us);
      }
    } catch (const detail::Interrupted&) {
      ++stopped;
      throw;
    }
  };
  EXPECT_THROW(parallel_for(2, 2, body), Enough);
  EXPECT_LE(stopped, 1);
}

TEST(Watch, HandsTheCallersLimitDownToWorkers) {
  const Watch watch({}, 1e-9);
  std::atomic<int> late = 0;
  parallel_for(64, 4, [&](Index) { late += detail::out_of_time() ? 1 : 0; });
  EXPECT_EQ(late, 64);
}

TEST(Watch, EndsDerivativesAndServesTheNextCall) {
  const auto qp = random_program(1, 60, 80, 5);
  const auto solution = solve(qp);
  ASSERT_EQ(solution.status, Status::Solved);
  const DenseMatrix all = jacobian(qp, solution, Field::h);
  {
    const Watch watch([] { throw Enough(); });
    EXPECT_THROW((void)jacobian(qp, solution, Field::h), Enough);
    EXPECT_THROW((void)solve(qp), detail::Interrupted);  // a Watch whose poll has thrown is spent
  }
  EXPECT_THROW((void)solve(qp, {.poll = [] { throw Enough(); }}), Enough);
  EXPECT_EQ(jacobian(qp, solution, Field::h), all);
}

TEST(Watch, LimitsTheWholeBatchAndKeepsWhatIsSolved) {
  const auto qp = random_program(2, 6, 5, 2);
  EXPECT_EQ(solve(qp, {.time_limit = 1e-9}).status, Status::TimeLimit);
  EXPECT_EQ(solve(qp, {.time_limit = 1e3}).status, Status::Solved);
  EXPECT_EQ(solve(qp, {.time_limit = 1e-9, .method = Method::InteriorPoint}).status, Status::TimeLimit);
  EXPECT_EQ(solve(qp, {.time_limit = 1e-9, .method = Method::Alternating}).status, Status::TimeLimit);
}

}  // namespace
}  // namespace altdiff::test
