#include "linalg/watch.hpp"

#include <algorithm>
#include <utility>

namespace altdiff {

namespace {

constexpr double look_every = 0x1p20;  // multiplications: half a millisecond
constexpr double no_limit = 1e9;       // seconds from which a limit is none

struct Thread {
  const Watch* watch = nullptr;
  double announced = 0;  // multiplications since the last look
  bool overtime = false;
};

thread_local Thread here;

}  // namespace

Watch::Watch(std::function<void()> poll, double time_limit)
    : poll_(std::move(poll)),
      outer_(here.watch),
      outermost_(outer_ != nullptr ? outer_->outermost_ : this),
      owner_(std::this_thread::get_id()) {
  if (outer_ != nullptr) end_ = outer_->end_;
  if (time_limit < no_limit) {
    const auto seconds = std::chrono::duration<double>(time_limit);
    end_ = std::min(end_, Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds));
  }
  here.watch = this;
}

Watch::~Watch() { here.watch = outer_; }

bool Watch::out_of_time() const { return end_ != Clock::time_point::max() && Clock::now() >= end_; }

void Watch::check() const {
  if (outermost_->stopped_.load(std::memory_order_relaxed)) throw detail::Interrupted();
  if (std::this_thread::get_id() != outermost_->owner_) return;
  const Watch* asked = this;
  while (asked != nullptr && !asked->poll_) asked = asked->outer_;
  if (asked == nullptr) return;
  try {
    asked->poll_();
  } catch (...) {
    outermost_->stopped_ = true;
    throw;
  }
}

namespace detail {

namespace {

/// Whether it is time to look again.
bool due(double work) {
  if (here.watch == nullptr) return false;
  here.announced += work;
  if (here.announced < look_every) return false;
  here.announced = 0;
  return true;
}

}  // namespace

bool out_of_time() {
  if (here.watch == nullptr) return false;
  here.watch->check();
  return !here.overtime && here.watch->out_of_time();
}

bool may_go_on(double work) { return !due(work) || !out_of_time(); }

void require_time(double work) {
  if (!may_go_on(work)) throw OutOfTime();
}

void check_interrupt(double work) {
  if (due(work)) here.watch->check();
}

Overtime::Overtime() : before_(std::exchange(here.overtime, true)) {}
Overtime::~Overtime() { here.overtime = before_; }

const Watch* current_watch() { return here.watch; }

WorkingFor::WorkingFor(const Watch* watch) : before_(std::exchange(here.watch, watch)) {}
WorkingFor::~WorkingFor() { here.watch = before_; }

}  // namespace detail

}  // namespace altdiff
