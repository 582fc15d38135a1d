#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>

#include "dual_programs.hpp"
#include "engines/active_set/goldfarb_idnani.hpp"
#include "engines/active_set/primal_dual.hpp"
#include "engines/alternating.hpp"
#include "linalg/threads.hpp"
#include "problem/checks.hpp"
#include "problem/residuals.hpp"
#include "random_problems.hpp"
#include "smooth/quick_step.hpp"

// Every allocation of the process is counted, whether by new, by malloc or inside a library: by the address
// sanitizer's own hook where it is there, otherwise by standing in front of malloc.
namespace {
std::atomic<long> allocations{0};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, std::size_t),
                                                         void (*)(const volatile void*));
namespace {
const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { ++allocations; }, [](const volatile void*) {});
}  // namespace
#else
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
#endif

namespace altdiff::test {
namespace {

template <class Work>
long allocations_of(const Work& work) {
  const long before = allocations;
  work();
  return allocations - before;
}

/// Allocations during so many rounds of ADMM, adaptation of the penalty and checks included.
template <Matrix M>
long allocations_of_rounds(const QuadraticProgram<M>& qp, int rounds) {
  const Settings settings{.max_iterations = rounds};
  const Point zero{.x = Vector::Zero(qp.n()),
                   .y = Vector::Zero(qp.p()),
                   .z = Vector::Zero(qp.m()),
                   .z_box = Vector::Zero(qp.n())};
  const detail::ScopedBlasThreads one_thread(0, 1);  // as small programs have it: several take memory
  detail::AlternatingEngine<M> engine(qp, settings, zero);
  return allocations_of([&] { (void)engine.advance(1e-300); });
}

TEST(Allocations, AreCounted) {
  EXPECT_GT(allocations_of([] { (void)Vector(1000).setZero().norm(); }), 0);
}

TEST(Allocations, TheLoopOfAdmmTakesNone) {
  const auto qp = detail::normalised(random_program(1, 30, 20, 5, true));
  EXPECT_EQ(allocations_of_rounds(qp, 500), 0);
  EXPECT_EQ(allocations_of_rounds(detail::normalised(sparse(qp)), 500), 0);
}

TEST(Allocations, TheJacobianRecursionKeepsOnlyItsLastRound) {
  // Large: OpenBLAS takes memory of its own for small products, on some processors.
  const auto qp = random_program(2, 150, 120, 100);
  const Quadratic<DenseMatrix> f{.P = qp.P, .q = qp.q};
  const Constraints<DenseMatrix> c{.A = qp.A, .b = qp.b, .G = qp.G, .h = qp.h};
  const auto of_rounds = [&](int rounds) {
    return allocations_of([&] {
      (void)alternating_differentiation(f, c, {}, {.b = DenseMatrix::Identity(100, 100)},
                                        {.tolerance = 1e-300, .max_iterations = rounds});
    });
  };
  (void)of_rounds(1);  // takes what the process keeps
  EXPECT_EQ(of_rounds(10), of_rounds(60));
}

/// A program at whose solution many rows are active: the larger `pull`, the more.
QuadraticProgram<> pulled_program(unsigned seed, Index n, double pull) {
  auto qp = random_program(seed, n, n, 3, true);
  qp.q *= pull;
  return qp;
}

/// Allocations of a search from the empty set, in a state that has held the answer before; and its changes.
template <class Search>
std::pair<long, int> allocations_of_search(const InDualSpace& dual, const Search& search) {
  detail::DualState state = dual.empty_set();
  search(state);
  EXPECT_EQ(state.outcome, detail::DualState::Outcome::Solved);
  std::ranges::fill(state.side, std::int8_t{0});
  state.changes = 0;
  const long count = allocations_of([&] { search(state); });
  return {count, state.changes};
}

TEST(Allocations, TheSearchesForAnActiveSetTakeNoneHoweverManyChangesTheyMake) {
  for (const Index n : {20, 100}) {  // side by side, and too large for that
    int fewest = 1000;
    int most = 0;
    for (const double pull : {0.1, 1.0, 30.0}) {
      const InDualSpace dual(pulled_program(3, n, pull));
      const std::vector<detail::DualProgram> program(1, dual.program());
      detail::GoldfarbIdnani pivots(program[0].k, dual.most(), 2e-14);
      const auto [count, changes] =
          allocations_of_search(dual, [&](detail::DualState& state) { pivots.run(program[0], state); });
      EXPECT_EQ(count, 0) << "n = " << n << ", " << changes << " changes";
      fewest = std::min(fewest, changes);
      most = std::max(most, changes);
    }
    EXPECT_GT(most, fewest + 10) << "searches of different lengths";
  }
}

TEST(Allocations, ThePrimalDualSearchOfSeveralInstancesTakesNone) {
  for (const Index n : {20, 100}) {
    std::deque<InDualSpace> duals;
    std::vector<detail::DualProgram> programs;
    std::vector<detail::DualState> states;
    for (unsigned seed = 0; seed < 6; ++seed) {
      auto qp = random_program(seed, n, 0, 0, true);
      qp.q *= seed;
      programs.push_back(duals.emplace_back(qp).program());
      states.push_back(duals.back().empty_set());
    }
    detail::PrimalDual search(programs[0].k, n);
    const auto run = [&] {
      for (auto& state : states) {
        std::ranges::fill(state.side, std::int8_t{0});
        state.changes = 0;
      }
      search.run(programs, states, duals[0].most());
    };
    run();
    EXPECT_EQ(allocations_of(run), 0) << n;
    for (const auto& state : states) EXPECT_GT(state.changes, 1);
  }
}

TEST(Allocations, AStepOfNewtonsMethodTakesNoneOnceItHasSeenTheSet) {
  const auto qp = detail::normalised(random_program(4, 20, 10, 3));
  const DenseMatrix G = qp.G.transpose();  // row after row
  const DenseMatrix A = qp.A.transpose();
  const detail::Instance program{
      .matrices = {.n = 20, .m = 10, .p = 3, .P = qp.P.data(), .G = G.data(), .A = A.data()},
      .q = qp.q.data(),
      .b = qp.b.data(),
      .h = qp.h.data()};
  const std::vector<Index> bounded;
  detail::QuickStep quick(20, 10, 3, bounded);
  const auto run = [&, z = Vector(Vector::Zero(10)), z_box = Vector(Vector::Zero(20))] {
    EXPECT_TRUE(quick.solve(program, z, z_box, 1));
  };
  run();
  EXPECT_EQ(allocations_of(run), 0);
  const PointBlock& found = quick.point();
  const Point point{.x = found.x, .y = found.y, .z = found.z, .z_box = found.z_box};
  EXPECT_LT(detail::ResidualCheck<DenseMatrix>(qp)(qp, point).worst(), 1e-11);
}

}  // namespace
}  // namespace altdiff::test
