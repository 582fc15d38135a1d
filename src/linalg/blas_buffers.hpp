#pragma once

namespace altdiff::detail {

/// How many threads may call BLAS at a time: `threads`, or fewer where address space is short. OpenBLAS keeps
/// a buffer of 32 MB of it for each of them, and ends the process if the system refuses one; so they are
/// taken here, when it is known that there is room. Throws std::bad_alloc if there is not even room for one.
[[nodiscard]] int threads_with_buffers(int threads);

}  // namespace altdiff::detail
