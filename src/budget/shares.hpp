#pragma once

#include "budget/row.hpp"

namespace altdiff::detail {

/// How much of each entry of a solved row moves freely, and how much with its upper limit. (B4), (B7)
template <class T>
void row_shares(const RowOf<T>& row, const BudgetRow& state, const T* x, double* moving, double* above);

}  // namespace altdiff::detail
