#pragma once

#include "derivatives/linearisation.hpp"
#include "engines/dual_newton.hpp"

namespace altdiff::detail {

/// (A2) where the Hessian is diagonal: M = C_S D C_S' of the last step of DualNewton, factorised. The rows
/// are read where the user has them.
class DiagonalLinearisation final : public Linearisation {
 public:
  /// `engine` has solved the instance and factorised M.
  DiagonalLinearisation(const Instance& instance, const DualNewton& engine);

  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const override;
  [[nodiscard]] int rounds() const override { return 0; }
  [[nodiscard]] bool regular() const override { return true; }
  [[nodiscard]] bool independent() const override { return true; }
  [[nodiscard]] ActiveSet active() const override;

 private:
  [[nodiscard]] Eigen::Map<const Vector> row(Index r) const;
  [[nodiscard]] Vector pulled(const Vector& v) const;        // C_S'v
  void subtract_rows(const Vector& moved, Vector& v) const;  // v -= C_S moved
  void solve_with_M(Vector& v) const;

  MatricesView matrices_;
  Vector D_, H_bound_, side_;
  std::vector<Index> rows_;
  DenseMatrix factor_;
  int refinements_;
};

}  // namespace altdiff::detail
