#include "linalg/threads.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <thread>

#include "linalg/blas.hpp"
#include "linalg/blas_buffers.hpp"

namespace altdiff::detail {

namespace {
constexpr Index worth_threads = 400;  // rows of a matrix; below, waking a thread costs more than it saves
constexpr Index small_work = 32768;   // multiplications: about ten microseconds

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
}  // namespace

int available_threads() {
  // Read once: the environment is not to be read while another thread may change it.
  static const int count = [] {
    const std::string wanted = environment("OMP_NUM_THREADS");
    int threads = 0;
    std::from_chars(wanted.data(), wanted.data() + wanted.size(), threads);
    if (threads < 1) threads = static_cast<int>(std::thread::hardware_concurrency());
    return std::max(threads, 1);
  }();
  return count;
}

int threads_for(int num_threads) {
  // More threads than cores wait for each other: OpenBLAS's took thirty times as long with twice as many.
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::min(num_threads > 0 ? num_threads : available_threads(), cores);
}

int threads_for(int num_threads, Index work) { return work < small_work ? 1 : threads_for(num_threads); }

ScopedBlasThreads::ScopedBlasThreads(Index n, int num_threads) {
  (void)threads_with_buffers(1);  // those of BLAS's own threads are there since it was loaded
  blas::set_num_threads(n < worth_threads ? 1 : threads_for(num_threads));
}

ScopedBlasThreads::~ScopedBlasThreads() { blas::set_num_threads(1); }

std::string blas_description() { return blas::description(); }

}  // namespace altdiff::detail
