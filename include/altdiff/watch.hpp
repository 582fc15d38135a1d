#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

namespace altdiff {

/// Lets a caller end long work early. Whatever this thread asks of the library while a Watch is alive (vjp,
/// jvp, jacobian, Algorithm 1 and budgets included) calls `poll` now and then, a few milliseconds apart at
/// most unless a single call of BLAS takes longer, and on this thread only. What poll throws stops every
/// thread that works for the call, and comes out of it; the Watch is spent then.
///
/// `solve` makes a Watch of its own from Settings::poll and Settings::time_limit; only `solve` and Algorithm
/// 1 know what to do when the time is over. Watches nest: an inner one never has more time than an outer one,
/// and without a poll of its own it calls the outer one's.
class Watch {
 public:
  explicit Watch(std::function<void()> poll,
                 double time_limit = std::numeric_limits<double>::infinity());  ///< seconds
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Whether the time is over. Without a limit the clock is not read.
  [[nodiscard]] bool out_of_time() const;

  /// Throws if the call is to end: on the thread of the outermost Watch what poll throws, on others
  /// detail::Interrupted once that has happened.
  void check() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::function<void()> poll_;
  const Watch* outer_;
  const Watch* outermost_;
  Clock::time_point end_ = Clock::time_point::max();
  std::thread::id owner_;
  mutable std::atomic<bool> stopped_ = false;  // of the outermost: poll has thrown
};

}  // namespace altdiff
