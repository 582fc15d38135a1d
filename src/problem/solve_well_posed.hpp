#pragma once

#include <altdiff/problem.hpp>
#include <functional>
#include <vector>

namespace altdiff::detail {

/// Solves a program that has a solution, in one way or more.
using SolveWellPosed = std::function<std::vector<Point>(const QuadraticProgram<SparseMatrix>&)>;

}  // namespace altdiff::detail
