#include "linalg/threads.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "linalg/blas.hpp"

namespace altdiff::detail {

namespace {
constexpr Index worth_threads = 400;  // below, waking a thread costs more than it saves
}

int available_threads() {
  // Read once: the environment is not to be read while another thread may change it.
  static const int count = [] {
    const char* wanted = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe)
    const int from_environment = wanted != nullptr ? std::atoi(wanted) : 0;  // NOLINT(cert-err34-c)
    return from_environment > 0 ? from_environment : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }();
  return count;
}

ScopedBlasThreads::ScopedBlasThreads(Index n, int num_threads) {
  const int allowed = num_threads > 0 ? num_threads : available_threads();
  blas::set_num_threads(n < worth_threads ? 1 : allowed);
}

ScopedBlasThreads::~ScopedBlasThreads() { blas::set_num_threads(1); }

std::string blas_description() { return blas::description(); }

}  // namespace altdiff::detail
