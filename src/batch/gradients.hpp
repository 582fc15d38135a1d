#pragma once

#include <altdiff/batch.hpp>

namespace altdiff::detail {

/// What the gradients of all fields are made of, one column an instance: the solutions, and their adjoints
/// (V1). Columns of instances that add nothing are zero in both.
struct AdjointBlock {
  const PointBlock& point;
  const PointBlock& adjoint;         // u, v, r, r_box
  const Vector& objective_bar;       // of each instance, empty: zero
  const DenseMatrix& active_bounds;  // +1 at ub, -1 at lb, 0 inside; empty: no bounds
};

/// (V2) to (V8) and the envelope (V9), summed over the instances that use an array; matrices that many use
/// are products over the batch.
void write_gradients(const BatchProgram& program, const AdjointBlock& block, const BatchGradient& gradient,
                     int num_threads);

}  // namespace altdiff::detail
