#pragma once

#include <altdiff/matrix.hpp>
#include <functional>

namespace altdiff::detail {

/// Calls body(i) once for every i in [0, count), on up to `threads` threads, the caller's among them; returns
/// when all calls have. Which thread takes which item is not fixed, so a body writes to its own item only.
///
/// - The first exception that a body throws is thrown again here; items not yet begun are left out then.
/// - Workers are started when first needed, and again after a fork: they do not survive it.
/// - A call from inside a body, or while another thread's call has the workers, runs on the caller's thread
/// alone.
void parallel_for(Index count, int threads, const std::function<void(Index)>& body);

}  // namespace altdiff::detail
