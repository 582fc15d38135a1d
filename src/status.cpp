#include <altdiff/solution.hpp>

namespace altdiff {

std::string_view name(Status status) {
  switch (status) {
    case Status::Solved:
      return "SOLVED";
    case Status::MaxIterations:
      return "MAX_ITERATIONS";
    case Status::TimeLimit:
      return "TIME_LIMIT";
    case Status::PrimalInfeasible:
      return "PRIMAL_INFEASIBLE";
    case Status::DualInfeasible:
      return "DUAL_INFEASIBLE";
    case Status::NonConvex:
      return "NONCONVEX";
    case Status::InvalidData:
      return "INVALID_DATA";
    case Status::NumericalError:
      return "NUMERICAL_ERROR";
  }
  return "UNKNOWN";
}

}  // namespace altdiff
