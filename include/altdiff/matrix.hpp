#pragma once

#include <Eigen/Core>
#include <Eigen/SparseCore>
#include <concepts>

namespace altdiff {

using Index = Eigen::Index;
using Vector = Eigen::VectorXd;
using DenseMatrix = Eigen::MatrixXd;
using SparseMatrix = Eigen::SparseMatrix<double>;

/// What P, A and G may be. Every algorithm is written once over this concept; src/linalg alone knows which is
/// which.
template <class M>
concept Matrix = std::same_as<M, DenseMatrix> || std::same_as<M, SparseMatrix>;

}  // namespace altdiff
