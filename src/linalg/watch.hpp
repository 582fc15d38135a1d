#pragma once

#include <altdiff/watch.hpp>
#include <exception>

namespace altdiff::detail {

// "May I go on?": the one question that long work asks, about time limits and interrupts together. The Watch
// of a call is known to every thread that works for it (parallel_for hands it down), so that whoever does the
// work can ask, however deep, and nothing of a call outlives it in the factors that derivatives keep.

/// Another thread of the same call was interrupted: its exception is the one that the caller sees.
class Interrupted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "altdiff: the call was interrupted"; }
};

/// Thrown instead of a factorisation that would begin too late, where `false` has another meaning.
class OutOfTime : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "altdiff: the time limit has passed"; }
};

/// Asked before `work` multiplications. False if the time is over, and then always; throws if the call was
/// interrupted. Looks at the clock only when about a million multiplications have been announced since the
/// last look, so that small pieces of work may ask as well.
[[nodiscard]] bool may_go_on(double work);

/// The same for work that has no way to stop half-way but an exception: throws OutOfTime.
void require_time(double work);

/// The same for work that time limits do not concern.
void check_interrupt(double work);

/// Whether the time is over, looking at the clock now; throws if the call was interrupted.
[[nodiscard]] bool out_of_time();

/// The last factorisation of a solved program is made whatever the clock says: an answer comes with its
/// derivative. While this is alive, time limits do not concern its thread.
class Overtime {
 public:
  Overtime();
  ~Overtime();
  Overtime(const Overtime&) = delete;
  Overtime& operator=(const Overtime&) = delete;

 private:
  bool before_;
};

/// The Watch that this thread works under, or null.
[[nodiscard]] const Watch* current_watch();

/// A worker's thread, while it works for a call.
class WorkingFor {
 public:
  explicit WorkingFor(const Watch* watch);
  ~WorkingFor();
  WorkingFor(const WorkingFor&) = delete;
  WorkingFor& operator=(const WorkingFor&) = delete;

 private:
  const Watch* before_;
};

}  // namespace altdiff::detail
