#pragma once

#include <algorithm>
#include <altdiff/altdiff.hpp>
#include <array>
#include <limits>

namespace altdiff::python {

/// A solved batch of dense programs, as Python holds it.
struct DenseBatch {
  BatchProgram program;
  BatchSolution solution;
  int num_threads = 0;  // of its derivatives

  /// How many numbers an instance has of x, y, z or z_box.
  [[nodiscard]] Index rows(std::size_t part) const {
    return std::array{program.n, program.p, program.m, program.n}.at(part);
  }
  /// Writes x, y, z or z_box of all instances, one after another.
  void copy_part(std::size_t part, double* target) const {
    const std::array blocks{&solution.point.x, &solution.point.y, &solution.point.z, &solution.point.z_box};
    const DenseMatrix& block = *blocks.at(part);
    if (block.rows() == rows(part)) {
      std::copy_n(block.data(), block.size(), target);
      return;
    }
    for (const Status status : solution.status) {  // there are no bounds
      const double number = status == Status::InvalidData ? std::numeric_limits<double>::quiet_NaN() : 0;
      target = std::fill_n(target, program.n, number);
    }
  }

  [[nodiscard]] bool all_solved() const {
    return std::ranges::all_of(solution.status, [](Status status) { return status == Status::Solved; });
  }
};

}  // namespace altdiff::python
