#pragma once

#include <string>

namespace altdiff {

struct BuildInfo {
  std::string version;          ///< of altdiff
  std::string instruction_set;  ///< what the compiler was allowed to use
  std::string blas;             ///< library, version and the kernel it chose
  int threads;                  ///< that this process may use
};

[[nodiscard]] BuildInfo build_info();

}  // namespace altdiff
