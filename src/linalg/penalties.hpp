#pragma once

#include <altdiff/matrix.hpp>

namespace altdiff::detail {

/// Penalties of one round. A row whose penalty is zero takes no part in it.
struct Penalties {
  double sigma = 0;  ///< proximal term
  Vector A;          ///< R_a, p
  Vector G;          ///< R_g, m
  Vector box;        ///< R_box, n
};

}  // namespace altdiff::detail
