#include <gtest/gtest.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <limits>
#include <vector>

#include "linalg/dense.hpp"
#include "linalg/small.hpp"
#include "objectives/terms.hpp"
#include "random_problems.hpp"

// What lies behind the last row of a matrix: memory that had other uses is full of denormal numbers, on which
// a processor may spend a hundred times as long.

namespace altdiff::test {
namespace {

constexpr double denormal = 1e-310;

/// Whether `work` calculates with a denormal number.
template <class Work>
bool meets_denormals(const Work& work) {
#ifdef __SSE2__
  constexpr unsigned flag = _MM_EXCEPT_DENORM;
  _mm_setcsr(_mm_getcsr() & ~flag);
  work();
  return (_mm_getcsr() & flag) != 0;
#else
  work();
  return false;
#endif
}

TEST(Padding, FactorisationsClearTheirOwn) {
  Random random(1);
  for (Index columns = 1; columns <= 9; ++columns)
    for (Index rows = columns; rows <= columns + 9; ++rows) {
      DenseMatrix T = DenseMatrix::Constant(detail::padded(rows), columns, denormal);
      T.topRows(rows) = random.normals(rows, columns);
      T.topRows(columns).diagonal().array() += 10;
      bool definite = false;
      EXPECT_FALSE(meets_denormals([&] { definite = detail::partial_cholesky(T.topRows(rows), 1); }))
          << rows << " rows, " << columns << " columns";
      EXPECT_TRUE(definite);
      EXPECT_TRUE((T.middleRows(rows, detail::padding).array() == 0).all());
    }
}

TEST(Padding, HessiansOfTermsWithAMapDoNotReadWhatWasThereBefore) {
  Random random(2);
  for (Index n = 1; n <= 9; ++n) {
    const Index rows = n + 3;
    const DenseMatrix map = random.normals(n, rows);
    const Vector x = random.normals(n, 1);
    const detail::InstanceTerm term({.kind = TermKind::Softplus, .rows = rows, .map = {.data = map.data()}},
                                    0, n);
    detail::InstanceTerm::Workspace workspace;
    workspace.scaled.setConstant(detail::padded(n), rows, denormal);
    Vector gradient = Vector::Zero(n);
    DenseMatrix hessian = DenseMatrix::Zero(n, n);
    EXPECT_FALSE(meets_denormals([&] { term.add(x.data(), gradient.data(), hessian.data(), workspace); }))
        << n;
  }
}

}  // namespace
}  // namespace altdiff::test
