#include "problem/sparse_program.hpp"

namespace altdiff::detail {

QuadraticProgram<SparseMatrix> sparse_program(const QuadraticProgram<DenseMatrix>& qp) {
  return {.P = qp.P.sparseView(),
          .q = qp.q,
          .G = qp.G.sparseView(),
          .h = qp.h,
          .A = qp.A.sparseView(),
          .b = qp.b,
          .lb = qp.lb,
          .ub = qp.ub};
}

}  // namespace altdiff::detail
