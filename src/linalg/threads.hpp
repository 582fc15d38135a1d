#pragma once

#include <altdiff/matrix.hpp>
#include <string>

namespace altdiff::detail {

/// OMP_NUM_THREADS if it is set, else the cores that this process may use.
[[nodiscard]] int available_threads();

/// What the setting `num_threads` asks for, as far as there are cores, and memory for BLAS on each: 0 is all
/// that are available.
[[nodiscard]] int threads_for(int num_threads);

/// The same for a job of so many multiplications: a small one is done before a second thread has begun.
[[nodiscard]] int threads_for(int num_threads, Index work);

/// Lets BLAS use several threads for one large problem while it is alive; small ones are faster with one.
/// Throws std::bad_alloc if there is no room for BLAS at all.
class ScopedBlasThreads {
 public:
  ScopedBlasThreads(Index n, int num_threads);
  ~ScopedBlasThreads();
  ScopedBlasThreads(const ScopedBlasThreads&) = delete;
  ScopedBlasThreads& operator=(const ScopedBlasThreads&) = delete;
};

[[nodiscard]] std::string blas_description();

}  // namespace altdiff::detail
