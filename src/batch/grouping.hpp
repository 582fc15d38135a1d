#pragma once

#include <altdiff/batch.hpp>

#include "engines/active_set/engine.hpp"

namespace altdiff::detail {

/// Which instances have the same matrices: the number of spaces, and the one of each instance.
struct Grouping {
  Index spaces = 0;
  std::vector<Index> of{};

  explicit Grouping(const BatchProgram& program);
};

/// The variables that have a bound in any instance.
[[nodiscard]] std::vector<Index> bounded_variables(const BatchProgram& program);

/// Whether an instance's vectors make sense; q may be absent.
[[nodiscard]] bool valid_vectors(const Instance& instance);

/// Whether an instance's matrices hold numbers. Those of a solved instance do: with NaN no residual is small.
[[nodiscard]] bool valid_matrices(const MatricesView& data);

/// An instance as a program of its own.
[[nodiscard]] QuadraticProgram<DenseMatrix> program_of(const Instance& instance);

}  // namespace altdiff::detail
