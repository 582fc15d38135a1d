#pragma once

#include <altdiff/problem.hpp>
#include <limits>
#include <memory>
#include <string_view>

namespace altdiff {

enum class Status {
  Solved,            ///< (R1), (R2), (R3), recomputed from the user's data, are below tolerance
  MaxIterations,     ///< stopped early; x, y, z, z_box are the last iterate
  TimeLimit,         ///< stopped early; x, y, z, z_box are the last iterate
  PrimalInfeasible,  ///< no x satisfies the constraints; y, z, z_box hold a certificate (C1)
  DualInfeasible,    ///< the objective falls without bound; x holds a ray (C2)
  NonConvex,         ///< P has a negative direction
  InvalidData,       ///< this instance of a batch holds NaN
  NumericalError,    ///< a factorisation failed where it should not
};

[[nodiscard]] std::string_view name(Status status);

namespace detail {
class Linearisation;
}

/// What is said of one program: the point, and how good it is.
struct Answer : Point {
  Status status = Status::NumericalError;
  double objective = 0;
  int iterations = 0;
  double primal_residual = std::numeric_limits<double>::infinity();  ///< (R1)
  double dual_residual = std::numeric_limits<double>::infinity();    ///< (R2)
  double duality_gap = std::numeric_limits<double>::infinity();      ///< (R3)
  bool degenerate = false;  ///< a weak or a redundant active row, or x not unique: dx is a convention
  bool unique = true;       ///< false: other x are as good, and dx is a convention
  double margin =
      std::numeric_limits<double>::infinity();  ///< (G1): distance to the nearest change of active set
};

template <Matrix M>
struct Solution : Answer {
  /// The factorised round at the solution, which every derivative reuses. Empty unless a point was found.
  std::shared_ptr<const detail::Linearisation> linearisation{};
};

}  // namespace altdiff
