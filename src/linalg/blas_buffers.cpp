#include "linalg/blas_buffers.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <vector>

#include "linalg/blas.hpp"
#include "linalg/parallel_for.hpp"

namespace altdiff::detail {

namespace {

constexpr std::size_t buffer = std::size_t{32} << 20U;  // bytes
constexpr std::size_t slack = std::size_t{4} << 20U;    // for what is allocated meanwhile
constexpr Index side = 128;                             // of a product that takes a buffer
constexpr int calls = 8;  // of BLAS that a thread makes when all are there: some overlap
constexpr std::chrono::milliseconds patience(5);

bool room_for(std::size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return false;
  munmap(block, bytes);
  return true;
}

/// Calls body(i) on so many threads at the same time, over and over until all are there.
template <class Function>
void meet(int threads, const Function& body) {
  using Clock = std::chrono::steady_clock;
  std::atomic<int> present{0};
  const auto end = Clock::now() + patience;
  parallel_for(threads, threads, [&](Index i) {
    ++present;
    while (present < threads && Clock::now() < end) body(i);
    for (int call = 0; call < calls; ++call) body(i);
  });
}

/// Makes BLAS take as many buffers as there are threads.
void take_buffers(int threads) {
  const DenseMatrix A = DenseMatrix::Ones(side, side);
  std::vector<DenseMatrix> products(static_cast<std::size_t>(threads), A);
  const int before = blas::num_threads();
  blas::set_num_threads(1);  // a call on BLAS's own threads takes theirs
  meet(threads, [&](Index i) { blas::gram('N', 1, A, 0, products[static_cast<std::size_t>(i)]); });
  blas::set_num_threads(before);
}

/// A thread's first allocation takes address space as well: it comes before the question whether there is
/// room.
void start_threads(int threads) {
  meet(threads, [](Index) { const Vector first = Vector::Ones(side); });
}

/// Buffers that BLAS has for sure.
class Buffers {
 public:
  [[nodiscard]] int ready() const { return ready_; }

  /// More of them, as far as there is room. Another thread that does the same is not waited for.
  void take(int threads) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    if (threads > 1) start_threads(threads);
    for (int wanted = threads; wanted > ready_; --wanted) {
      if (!room_for(static_cast<std::size_t>(wanted - ready_) * buffer + slack)) continue;
      take_buffers(wanted);
      ready_ = wanted;
    }
    if (ready_ == 0) throw std::bad_alloc();
  }

 private:
  std::mutex mutex_;
  std::atomic<int> ready_{0};
};

/// Set while this thread takes buffers on several threads: parallel_for asks for them as well.
thread_local bool taking = false;

class Taking {
 public:
  Taking() { taking = true; }
  ~Taking() { taking = false; }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;
};

}  // namespace

int threads_with_buffers(int threads) {
  static auto* const buffers = new Buffers;  // never destroyed: threads may outlive every static object
  if (!blas::is_openblas || taking || threads <= buffers->ready()) return threads;
  const Taking guard;
  buffers->take(threads);
  return std::clamp(buffers->ready(), 1, threads);
}

}  // namespace altdiff::detail
