#pragma once

#include <altdiff/matrix.hpp>
#include <concepts>

namespace altdiff::detail {

/// A body that somebody else keeps: unlike std::function it takes no memory.
class Body {
 public:
  template <std::invocable<Index> Function>
    requires(!std::same_as<Function, Body>)
  Body(const Function& function)  // NOLINT(google-explicit-constructor)
      : function_(&function), call_([](const void* f, Index i) { (*static_cast<const Function*>(f))(i); }) {}

  void operator()(Index i) const { call_(function_, i); }

 private:
  const void* function_;
  void (*call_)(const void*, Index);
};

/// Calls body(i) once for every i in [0, count), on up to `threads` threads, the caller's among them; returns
/// when all calls have. Which thread takes which item is not fixed, so a body writes to its own item only.
///
/// - The first exception that a body throws is thrown again here; items not yet begun are left out then.
/// - Workers are started when first needed, and again after a fork: they do not survive it. Where the system
/// refuses a thread, or memory for BLAS on it, there are fewer.
/// - All of them work under the caller's Watch; its interrupts are answered between items, and while the
/// caller waits for its workers.
/// - A call from inside a body, or while another thread's call has the workers, runs on the caller's thread
/// alone.
void parallel_for(Index count, int threads, const Body& body);

}  // namespace altdiff::detail
