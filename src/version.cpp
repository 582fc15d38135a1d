#include <altdiff/version.hpp>

#include "linalg/threads.hpp"

namespace altdiff {

BuildInfo build_info() {
#if defined(__AVX2__) && defined(__FMA__)
  const char* instruction_set = "x86-64-v3";
#else
  const char* instruction_set = "baseline";
#endif
  return {.version = ALTDIFF_VERSION,
          .instruction_set = instruction_set,
          .blas = detail::blas_description(),
          .threads = detail::available_threads()};
}

}  // namespace altdiff
