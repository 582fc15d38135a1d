#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "engines/alternating.hpp"
#include "problem/checks.hpp"
#include "random_problems.hpp"

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
  const auto qp = random_program(2, 30, 20, 5);
  const Quadratic<DenseMatrix> f{.P = qp.P, .q = qp.q};
  const Constraints<DenseMatrix> c{.A = qp.A, .b = qp.b, .G = qp.G, .h = qp.h};
  const auto of_rounds = [&](int rounds) {
    return allocations_of([&] {
      (void)alternating_differentiation(f, c, {}, {.b = DenseMatrix::Identity(5, 5)},
                                        {.tolerance = 1e-300, .max_iterations = rounds});
    });
  };
  EXPECT_EQ(of_rounds(10), of_rounds(300));
}

}  // namespace
}  // namespace altdiff::test
