#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "derivatives/linearisation.hpp"

namespace altdiff::detail {

/// How long rows are in the user's units, in those of the program: what multipliers are measured by where
/// they are not unique.
struct RowLengths {
  Vector y, z, box;

  explicit RowLengths(const ScaledProgram<SparseMatrix>& program) : RowLengths(program.qp, program.D) {}
  RowLengths(const QuadraticProgram<SparseMatrix>& qp, const Vector& D);
};

/// (A2) on an active set by orthogonal factors, for a program that is small enough to be dense here. Strict
/// bounds hold their variables; of what is left, C are the strict rows over the free variables, and rows that
/// give way are part of the Hessian, H = P + sum_i w_i G_i'G_i.
///
///     C' = Q R  (with pivoting): the rank of C, its pseudo-inverse C+, and Z, an orthonormal basis of its
///     null space                                                                                      (Z1)
///     N = Z (Z'H Z)+ Z',   B = (I - N H) C+,   M = C+'(H - H N H) C+                                  (Z2)
///     x = -N r_x - B r_c,   lambda = -B'r_x + M r_c                                                   (Z3)
///
/// No penalty has a part in it, so that nothing leaks through a row, and rank and curvature are judged by
/// themselves: it says which rows depend on each other and whether x is unique where rounds only say whether
/// they converge.
class NullSpace {
 public:
  /// `lengths`: of rows that depend on each other the multipliers are least in these units.
  NullSpace(const QuadraticProgram<SparseMatrix>& qp, ActiveSet set, const RowLengths& lengths);

  static constexpr Index largest = 128;  ///< number of variables for which it is quick
  [[nodiscard]] static bool serves(const QuadraticProgram<SparseMatrix>& qp) { return qp.n() <= largest; }

  [[nodiscard]] bool independent() const { return rank_ == C_.rows(); }  ///< (A5): the rows of C are
  [[nodiscard]] bool regular() const { return flat_.cols() == 0; }       ///< (A4): H curves upwards on Z

  /// (A2), one column a right-hand side, in the units of the program.
  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const;

  /// What there is of each column in flat directions, in the units of the program (L2).
  [[nodiscard]] DenseMatrix flat_part(const DenseMatrix& columns) const;

  /// What there is of rows, one column each, in the directions that S leaves, and in those of them without
  /// curvature.
  [[nodiscard]] DenseMatrix inside(const DenseMatrix& rows) const {
    return Z_.transpose() * rows(free_, Eigen::all);
  }
  [[nodiscard]] DenseMatrix flat(const DenseMatrix& rows) const {
    return flat_.transpose() * rows(free_, Eigen::all);
  }

  /// rows' N rows, one column a row: how these rows move if each of them is pushed.
  [[nodiscard]] DenseMatrix response(const DenseMatrix& rows) const;

  /// A point that is less exact than it could be, corrected on the set.
  void polish(const QuadraticProgram<SparseMatrix>& qp, Point& point) const;

 private:
  [[nodiscard]] DenseMatrix inverse_by(const RowLengths& lengths) const;
  void find_curvature(double largest_P);
  void find_maps() const;
  [[nodiscard]] Index count() const { return static_cast<Index>(free_.size()); }

  ActiveSet set_;
  std::vector<Index> free_{}, held_{};    // variables
  std::vector<Index> strict_{}, soft_{};  // rows of G
  DenseMatrix H_{};                       // over all variables
  Vector weights_{}, box_weights_{};      // of soft rows; of soft bounds, zero elsewhere
  DenseMatrix rows_{}, soft_rows_{};      // A and strict rows of G, and soft ones, over all variables
  DenseMatrix C_{};                       // rows_ over the free variables
  DenseMatrix Z_{};                       // orthonormal basis of the null space of C
  DenseMatrix flat_{};                    // orthonormal basis of the flat directions of the free variables
  DenseMatrix C_inverse_{};               // C+
  DenseMatrix N_{};
  Index rank_ = 0;
  mutable DenseMatrix B_{}, M_{};
  mutable std::once_flag once_{};
};

/// Derivatives by it.
class NullSpaceLinearisation final : public Linearisation {
 public:
  using Program = std::shared_ptr<const ScaledProgram<SparseMatrix>>;

  explicit NullSpaceLinearisation(Program program, const ActiveSet& set, bool several_x = false)
      : program_(std::move(program)),
        system_(std::make_shared<const NullSpace>(program_->qp, set, RowLengths(*program_))),
        set_(set),
        several_x_(several_x) {}
  /// With factors on a set that differs from `set` at most in the side of fixed variables.
  NullSpaceLinearisation(Program program, std::shared_ptr<const NullSpace> factors, ActiveSet set)
      : program_(std::move(program)), system_(std::move(factors)), set_(std::move(set)) {}

  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const override {
    return program_->to_user(system_->solve(program_->right_side_from_user(right_side)));
  }
  [[nodiscard]] int rounds() const override { return 0; }
  [[nodiscard]] bool regular() const override { return system_->regular() && !several_x_; }
  [[nodiscard]] bool independent() const override { return system_->independent(); }
  [[nodiscard]] ActiveSet active() const override { return in_user_rows(*program_, set_); }
  [[nodiscard]] DenseMatrix flat_part(const DenseMatrix& columns) const override {
    return system_->flat_part(columns);
  }

 private:
  Program program_;
  std::shared_ptr<const NullSpace> system_;
  ActiveSet set_;
  bool several_x_ = false;  // whatever the rows of the set say
};

}  // namespace altdiff::detail
