#pragma once

#include <altdiff/matrix.hpp>
#include <cmath>
#include <utility>

#include "linalg/products.hpp"

namespace altdiff::detail {

/// Penalties of one round. A row whose penalty is zero takes no part in it.
struct Penalties {
  double sigma = 0;  ///< proximal term
  Vector A;          ///< R_a, p
  Vector G;          ///< R_g, m
  Vector box;        ///< R_box, n; infinite: x_j is held by its bound, and has no part in the matrix
};

/// What a bound adds to the diagonal of its variable.
[[nodiscard]] inline double on_diagonal(double R_box) { return std::isinf(R_box) ? 0 : R_box; }

/// x += R_box box: the bounds' right-hand sides, eliminated.
inline void add_bounds(const Vector& R_box, const Block& box, Block x) {
  for (Index c = 0; c < x.cols(); ++c)
    for (Index j = 0; j < x.rows(); ++j) x(j, c) += on_diagonal(R_box[j]) * box(j, c);
}

/// The bounds' multipliers from x. A variable that is held takes the value that its bound says, and what acts
/// on it becomes the multiplier; what that means for the others is left to the next round.
inline void solve_bounds(const Vector& R_box, Block x, Block box) {
  for (Index c = 0; c < x.cols(); ++c)
    for (Index j = 0; j < x.rows(); ++j) {
      if (std::isinf(R_box[j]))
        std::swap(x(j, c), box(j, c));
      else
        box(j, c) = R_box[j] * (x(j, c) - box(j, c));
    }
}

}  // namespace altdiff::detail
