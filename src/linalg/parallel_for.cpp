#include "linalg/parallel_for.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "linalg/blas_buffers.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

/// One call of parallel_for: items are handed out one by one.
class Job {
 public:
  Job(Index count, const Body& body) : count_(count), body_(body) {}

  /// Works until no item is left, or the caller's Watch says stop.
  void work() {
    const WorkingFor call(watch_);
    for (Index i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1))
      attempt([&] {
        if (watch_ != nullptr) watch_->check();
        body_(i);
      });
  }

  /// For the caller, while it waits: an interrupt must not wait for the workers' items.
  void check() {
    if (watch_ != nullptr) attempt([this] { watch_->check(); });
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
    if (interrupted_) throw Interrupted();
  }

 private:
  template <class Function>
  void attempt(const Function& function) {
    try {
      function();
    } catch (const Interrupted&) {
      interrupted_ = true;  // by what the caller's thread has caught, or will
      next_ = count_;
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void fail(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::move(error);
    next_ = count_;
  }

  Index count_;
  const Body& body_;
  const Watch* watch_ = current_watch();
  std::atomic<Index> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<bool> interrupted_ = false;
};

constexpr std::chrono::microseconds patience(200);       // of a thread that has nothing to do
constexpr std::chrono::milliseconds between_checks(20);  // of a caller that waits for its workers

void pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

thread_local bool inside_job = false;  // this thread runs a body: what it calls in turn stays on it

/// Workers that wait for a job. The caller waits only for workers that have joined it: one that the system
/// has not woken in time finds the job closed and sleeps again.
class Pool {
 public:
  void run(Job& job, int helpers) {
    const std::unique_lock busy(caller_, std::try_to_lock);
    if (!busy.owns_lock()) {
      job.work();
      return;
    }
    open(job, helpers);
    inside_job = true;
    job.work();
    inside_job = false;
    close(job);
  }

 private:
  void open(Job& job, int helpers) {
    const std::scoped_lock lock(mutex_);
    start(helpers);
    job_ = &job;
    seats_ = std::min(helpers, started_);
    if (asleep_ > 0) wake_.notify_all();
  }

  /// As many workers as the system grants: where it refuses one, the others do its work.
  void start(int helpers) {
    try {
      for (; started_ < helpers; ++started_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      return;
    } catch (const std::bad_alloc&) {
      return;
    }
  }

  void close(Job& job) {
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    seats_ = 0;
    if (joined_ == 0) return;
    lock.unlock();
    look_for([this] { return joined_ == 0; });
    lock.lock();
    while (!left_.wait_for(lock, between_checks, [this] { return joined_ == 0; })) {
      lock.unlock();
      job.check();
      lock.lock();
    }
  }

  void serve() {
    inside_job = true;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (seats_ == 0) await_job(lock);
      Job& job = *job_;
      --seats_;
      ++joined_;
      lock.unlock();
      job.work();
      lock.lock();
      if (--joined_ == 0) left_.notify_one();
    }
  }

  /// A pass forward or back is several jobs close together, and the system takes longer to wake a thread than
  /// many of them last: for a while a thread that waits looks for itself.
  template <class Condition>
  static void look_for(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!condition() && std::chrono::steady_clock::now() < end)
      for (int i = 0; i < 8 && !condition(); ++i) pause();
  }

  void await_job(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    look_for([this] { return seats_ != 0; });
    lock.lock();
    ++asleep_;
    wake_.wait(lock, [this] { return seats_ > 0; });
    --asleep_;
  }

  std::mutex caller_;  // one call at a time has the workers
  std::mutex mutex_;   // guards what follows
  std::condition_variable wake_, left_;
  Job* job_ = nullptr;
  int started_ = 0;
  int asleep_ = 0;
  std::atomic<int> seats_ = 0;   // workers that may still join
  std::atomic<int> joined_ = 0;  // workers at work
};

/// This process's pool. Never destroyed: its threads may outlive every static object. A child of fork has
/// none of its parent's threads, and whatever state their locks were in, so it gets a pool of its own.
Pool& pool() {
  static std::mutex mutex;
  static std::atomic<pid_t> owner{0};
  static Pool* current = nullptr;
  if (owner.load() != getpid()) {
    const std::scoped_lock lock(mutex);
    if (owner.load() != getpid()) {
      current = new Pool;
      owner = getpid();
    }
  }
  return *current;
}

}  // namespace

void parallel_for(Index count, int threads, const Body& body) {
  if (count == 1) {
    body(0);
    return;
  }
  Job job(count, body);
  const int wanted = inside_job ? 1 : static_cast<int>(std::min<Index>(threads, count));
  const int granted = wanted > 1 ? threads_with_buffers(wanted) : wanted;
  if (granted > 1) {
    pool().run(job, granted - 1);
  } else {
    job.work();
  }
  job.rethrow();
}

}  // namespace altdiff::detail
