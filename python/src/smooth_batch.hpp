#pragma once

#include <algorithm>
#include <altdiff/smooth.hpp>
#include <array>
#include <utility>
#include <vector>

namespace altdiff::python {

using NumberPlaces = std::vector<std::pair<std::size_t, std::size_t>>;  // term and field of each number

/// A solved batch of (N1), as Python holds it.
struct SmoothBatch {
  SmoothProgram program;
  SmoothSolution solution;
  int num_threads = 0;    // of its derivatives
  NumberPlaces places{};  // of the tensors that it was solved from, if it was

  /// How many numbers an instance has of x, y, z or z_box.
  [[nodiscard]] Index rows(std::size_t part) const { return block(part).rows(); }
  /// Writes x, y, z or z_box of all instances, one after another.
  void copy_part(std::size_t part, double* target) const {
    std::copy_n(block(part).data(), block(part).size(), target);
  }
  [[nodiscard]] bool all_solved() const {
    return std::ranges::all_of(solution.status, [](Status status) { return status == Status::Solved; });
  }

 private:
  [[nodiscard]] const DenseMatrix& block(std::size_t part) const {
    return *std::array{&solution.point.x, &solution.point.y, &solution.point.z, &solution.point.z_box}.at(
        part);
  }
};

}  // namespace altdiff::python
