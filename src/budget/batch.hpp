#pragma once

#include "budget/row.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

/// Calls body(row, r, scratch) for every row of a batch: rows side by side, or all threads on one after
/// another if they are few and long.
template <class T, class Body>
void for_rows(const BudgetProgram<T>& program, const Body& body) {
  constexpr Index long_row = 131072;
  constexpr Index entries_at_once = 8192;
  const int threads = threads_for(program.num_threads, program.rows * program.n);
  if (program.n >= long_row && program.rows < 2 * threads) {
    RowScratch scratch;
    for (Index r = 0; r < program.rows; ++r) body(RowOf<T>(program, r, threads), r, scratch);
    return;
  }
  const Index group = std::max<Index>(1, entries_at_once / std::max<Index>(program.n, 1));
  parallel_for((program.rows + group - 1) / group, threads, [&](Index g) {
    RowScratch scratch;
    for (Index r = g * group; r < std::min(program.rows, (g + 1) * group); ++r)
      body(RowOf<T>(program, r, 1), r, scratch);
  });
}

inline bool is_solved(const BudgetRow& state) { return state.status == 0; }

}  // namespace altdiff::detail
