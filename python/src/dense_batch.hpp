#pragma once

#include <algorithm>
#include <altdiff/altdiff.hpp>

namespace altdiff::python {

/// A solved batch of dense programs, as Python holds it.
struct DenseBatch {
  BatchProgram program;
  BatchSolution solution;
  int num_threads = 0;  // of its derivatives

  [[nodiscard]] bool all_solved() const {
    return std::ranges::all_of(solution.status, [](Status status) { return status == Status::Solved; });
  }
};

}  // namespace altdiff::python
