#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace altdiff::detail {

/// When work that has begun now must end. Where there is no limit, nobody looks at the clock.
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(double seconds) : seconds_(seconds) {
    if (limited()) begin_ = Clock::now();
  }

  [[nodiscard]] double seconds_left() const {
    return limited() ? seconds_ - std::chrono::duration<double>(Clock::now() - begin_).count() : seconds_;
  }
  [[nodiscard]] bool passed() const { return seconds_left() <= 0; }
  /// The limit for a part of the work, which may not be zero.
  [[nodiscard]] double rest() const { return std::max(seconds_left(), 1e-9); }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] bool limited() const { return std::isfinite(seconds_); }

  double seconds_ = std::numeric_limits<double>::infinity();
  Clock::time_point begin_{};
};

}  // namespace altdiff::detail
