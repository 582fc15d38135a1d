#include "linalg/parallel_for.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace altdiff::test {
namespace {

using detail::parallel_for;

std::vector<int> squares(Index count, int threads) {
  std::vector<int> result(static_cast<std::size_t>(count), -1);
  parallel_for(count, threads,
               [&](Index i) { result[static_cast<std::size_t>(i)] = static_cast<int>(i * i); });
  return result;
}

TEST(ParallelFor, VisitsEveryItemOnceForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 4, 9})
    for (const Index count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      parallel_for(count, threads, [&](Index i) { ++visits[static_cast<std::size_t>(i)]; });
      for (const auto& visit : visits) EXPECT_EQ(visit, 1);
    }
}

TEST(ParallelFor, ThrowsTheBodysExceptionAndServesTheNextCall) {
  EXPECT_THROW(parallel_for(100, 4,
                            [](Index i) {
                              if (i == 13) throw std::runtime_error("thirteen");
                            }),
               std::runtime_error);
  EXPECT_EQ(squares(50, 4), squares(50, 1));
}

TEST(ParallelFor, RunsNestedCallsOnTheThreadThatMakesThem) {
  std::atomic<int> total{0};
  parallel_for(8, 4, [&](Index) { parallel_for(8, 4, [&](Index) { ++total; }); });
  EXPECT_EQ(total, 64);
}

TEST(ParallelFor, ServesCallersFromSeveralThreads) {
  std::vector<std::jthread> callers;
  std::atomic<int> total{0};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) parallel_for(20, 3, [&](Index) { ++total; });
    });
  callers.clear();
  EXPECT_EQ(total, 4 * 50 * 20);
}

#ifndef __SANITIZE_THREAD__  // which does not support threads after a fork
TEST(ParallelFor, WorksInAChildOfFork) {
  EXPECT_EQ(squares(100, 4).back(), 99 * 99);  // the parent's workers exist
  const pid_t child = fork();
  if (child == 0) _exit(squares(100, 4).back() == 99 * 99 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

}  // namespace
}  // namespace altdiff::test
