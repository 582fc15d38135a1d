#pragma once

#include <altdiff/matrix.hpp>
#include <type_traits>

#include "linalg/dense_system.hpp"
#include "linalg/sparse_system.hpp"

namespace altdiff::detail {

/// The linear system of one alternating round, factorised:
///
///     [ H + sigma I   A'      G'      I       ] [x  ]   [r_x  ]
///     [ A            -1/R_a                   ] [y  ] = [r_y  ]                                       (K2)
///     [ G                    -1/R_g           ] [z  ]   [r_z  ]
///     [ I                            -1/R_box ] [box]   [r_box]
///
/// Eliminating the multipliers leaves the paper's Hessian of the augmented Lagrangian (K1). Dense data: that
/// n x n matrix is formed and factorised by Cholesky. Sparse data: the quasi-definite matrix itself, by LDL',
/// because one full row of A would make (K1) full. This is the one trait through which dense and sparse share
/// every algorithm; both take all their memory in the constructor.
template <Matrix M>
using AugmentedSystem = std::conditional_t<std::is_same_v<M, DenseMatrix>, DenseSystem, SparseSystem>;

}  // namespace altdiff::detail
