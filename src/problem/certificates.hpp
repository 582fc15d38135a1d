#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// What rows and bounds add up to.
enum class Contradiction {
  None,
  WithinTolerance,  ///< one, but so small beside 1 that an x may still count as feasible (R1)
  BeyondTolerance,
};

/// Tests proofs that a normalised program has no solution; keeps its workspace, so that a call takes no
/// memory.
template <Matrix M>
class CertificateCheck {
 public:
  /// `tolerance` is that of SOLVED: what it forgives is no contradiction.
  explicit CertificateCheck(const QuadraticProgram<M>& qp, double tolerance = 1e-8);

  /// True if the multipliers of v prove that no x satisfies the constraints (C1). z_box is set by
  /// the test: the bounds take up what is left of A'y + G'z. The largest multiplier becomes about one.
  [[nodiscard]] bool proves_primal_infeasible(const QuadraticProgram<M>& qp, Point& v);
  [[nodiscard]] Contradiction contradiction(const QuadraticProgram<M>& qp, Point& v);

  /// True if d is a ray along which the objective falls without bound (C2); its length becomes about one.
  /// `flat` is what P d may be, relative to P and d: an engine on its way is content with `nearly_flat`.
  [[nodiscard]] bool proves_dual_infeasible(const QuadraticProgram<M>& qp, Vector& d, double flat = 1e-12);
  static constexpr double nearly_flat = 1e-9;

 private:
  /// What rows and bounds add up to: 0 x <= -claim.
  struct Claim {
    double claim = 0;
    double terms = 0;     ///< of the claim, in absolute values
    double weight = 0;    ///< sum of the multipliers
    double limit = 1;     ///< the largest that takes part, or one
    double size = 0;      ///< of the terms of A'y + G'z + z_box
    double residual = 0;  ///< of A'y + G'z + z_box = 0, where no bound can take it up
    double pull = 0;      ///< sum of the multipliers times the sizes of their rows
    double in_doubt = 0;  ///< at most what of the claim's terms may be rounding

    [[nodiscard]] Contradiction kind(double least) const;
  };

  struct Descent {
    bool at_all;  ///< in any units
    bool clear;   ///< more than the errors of a ray could make of q
  };

  [[nodiscard]] bool normalise(const QuadraticProgram<M>& qp, Point& v) const;
  [[nodiscard]] Claim claim_of(const QuadraticProgram<M>& qp, Point& v) const;
  [[nodiscard]] static Descent descent_along(const QuadraticProgram<M>& qp, const Vector& d);
  [[nodiscard]] bool flat_along(const QuadraticProgram<M>& qp, const Vector& d, double flat);
  [[nodiscard]] bool exactly_level(const QuadraticProgram<M>& qp, const Vector& d) const;
  [[nodiscard]] bool level(const QuadraticProgram<M>& qp, const Vector& sizes_P, const Vector& sizes_A,
                           const Vector& sizes_G, double length) const;
  [[nodiscard]] static bool stays_within_bounds(const QuadraticProgram<M>& qp, const Vector& d,
                                                double allowed);

  double least_claim_;
  Vector norms_P_, norms_A_, norms_G_;  // largest number of each row
  Vector Pd_, Ad_, Gd_;
  Vector negligible_;  // of A'y + G'z, where it is rounding
};

enum class Curvature {
  Positive,
  Doubtful,  ///< negative somewhere, but by no more than P's having been written down to five digits explains
  Negative,
};

/// Whether P has a negative direction (C3).
template <Matrix M>
[[nodiscard]] Curvature curvature_of(const M& P);

/// Whether it is safely definite on its rows that are not zero.
[[nodiscard]] bool definite_where_curved(const SparseMatrix& P);

/// Whether it has one that rounding to double precision does not explain.
template <Matrix M>
[[nodiscard]] bool curves_downwards(const M& P);

/// Adds the least multiple of P's diagonal, of a few up to what rounding to single precision takes away, that
/// makes P convex; returns what was added.
Vector make_convex(SparseMatrix& P);

extern template bool curves_downwards(const DenseMatrix&);
extern template bool curves_downwards(const SparseMatrix&);
extern template class CertificateCheck<DenseMatrix>;
extern template class CertificateCheck<SparseMatrix>;
extern template Curvature curvature_of(const DenseMatrix&);
extern template Curvature curvature_of(const SparseMatrix&);

}  // namespace altdiff::detail
