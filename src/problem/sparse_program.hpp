#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// A program as a sparse one: for what dense matrices would square the condition of.
[[nodiscard]] QuadraticProgram<SparseMatrix> sparse_program(const QuadraticProgram<DenseMatrix>& qp);
[[nodiscard]] inline QuadraticProgram<SparseMatrix> sparse_program(const QuadraticProgram<SparseMatrix>& qp) {
  return qp;
}

}  // namespace altdiff::detail
