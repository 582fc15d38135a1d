#include <atomic>

#include "budget/batch.hpp"

namespace altdiff {

using namespace detail;

template <class T>
Index solve(const BudgetProgram<T>& program, T* x, BudgetRow* states) {
  std::atomic<Index> failures{0};
  for_rows(program, [&](const RowOf<T>& row, Index r, RowScratch& scratch) {
    T* own = x + r * program.n;
    states[r] = solve_row(row, own, scratch);
    if (is_solved(states[r])) return;
    std::fill_n(own, program.n, std::numeric_limits<T>::quiet_NaN());
    ++failures;
  });
  return failures;
}

template Index solve(const BudgetProgram<float>&, float*, BudgetRow*);
template Index solve(const BudgetProgram<double>&, double*, BudgetRow*);

}  // namespace altdiff
