#pragma once

#include <altdiff/batch.hpp>

#include "linalg/products.hpp"

namespace altdiff::detail {

/// Where x is the least of many: what turns with the matrices (L5).
struct Turn {
  Index column;
  const Point* u;  // of the linearisation
  Vector flat;     // the flat part of the cotangent of x
};

/// What the gradients of all fields are made of, one column an instance: the solutions, and their adjoints
/// (V1). Columns of instances that add nothing are zero in both.
struct AdjointBlock {
  Index first = 0;  // the instance of the first column
  BasicPoint<ConstBlock> point;
  BasicPoint<ConstBlock> adjoint;    // u, v, r, r_box
  const Vector& objective_bar;       // of each instance, empty: zero
  const DenseMatrix& active_bounds;  // +1 at ub, -1 at lb, 0 inside; empty: no bounds
  const std::vector<Turn>& turns;
};

/// (V2) to (V8) and the envelope (V9), summed over the instances that use an array; matrices that many use
/// are products over the batch. The block that begins the batch sets the gradients, others add to them.
void write_gradients(const BatchProgram& program, const AdjointBlock& block, const BatchGradient& gradient,
                     int num_threads);

}  // namespace altdiff::detail
