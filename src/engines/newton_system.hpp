#pragma once

#include <altdiff/problem.hpp>
#include <vector>

#include "linalg/augmented_system.hpp"

namespace altdiff::detail {

/// The linear system of an interior point's Newton step. With E = [A; I_f], the equalities and the variables
/// with lb = ub, and C = [G; -I_l; I_u], the inequalities and the bounds that exist:
///
///     [ P + rho   E'       C'          ] [x]   [r_x]
///     [ E        -delta                ] [y] = [r_y]                                                  (I2)
///     [ C                 -(delta + w) ] [z]   [r_z]
///
/// This is (K2) with the penalties 1/delta on E and 1/(delta + w) on C. rho and delta may be smaller than
/// what a factorisation without pivoting survives: it is made with larger ones, and refinement takes the
/// difference off.
template <Matrix M>
class NewtonSystem {
 public:
  struct Unknowns {
    Vector x, y, z;  ///< of the variables, of the rows of E, of the rows of C

    [[nodiscard]] double size() const;  ///< largest absolute value
  };

  /// `qp` is normalised, and outlives this.
  NewtonSystem(const QuadraticProgram<M>& qp, AugmentedSystem<M> system);

  [[nodiscard]] const Vector& e() const { return e_; }                    ///< E x = e
  [[nodiscard]] const Vector& c() const { return c_; }                    ///< C x <= c
  void add_E(double alpha, const Vector& x, Vector& y) const;             ///< y += alpha E x
  void add_E_transposed(double alpha, const Vector& y, Vector& x) const;  ///< x += alpha E'y
  void add_C(double alpha, const Vector& x, Vector& z) const;             ///< z += alpha C x
  void add_C_transposed(double alpha, const Vector& z, Vector& x) const;  ///< x += alpha C'z
  /// x, and the multipliers as the user knows them: z_box is positive at ub, negative at lb.
  [[nodiscard]] Point as_point(const Unknowns& v) const;

  [[nodiscard]] bool factorise(const Vector& w, double rho, double delta);
  /// Refined until the relative error is below `accuracy`, if that can be had; false if no factorisation
  /// served.
  [[nodiscard]] bool solve(const Unknowns& right_side, double accuracy, Unknowns& d);
  /// With the factor as it is.
  void solve_roughly(Unknowns& d);

  [[nodiscard]] AugmentedSystem<M>& system() { return system_; }

 private:
  [[nodiscard]] bool factorise(double floor);
  void subtract_product(const Unknowns& d, Unknowns& r) const;
  [[nodiscard]] double refine(const Unknowns& right_side, double accuracy, Unknowns& d);

  const QuadraticProgram<M>& qp_;
  std::vector<Index> fixed_, lower_, upper_;  // variables
  Index n_, p_, m_;
  Vector e_, c_;
  AugmentedSystem<M> system_;
  Penalties R_;
  Vector R_y_, R_z_;  // penalties of all rows of E and of C
  Vector w_;
  double rho_ = 0, delta_ = 0;
  double floor_;  // of rho and delta in the factorisation: the one that served last
  Unknowns r_, correction_;
  Vector workspace_, box_;
};

extern template class NewtonSystem<DenseMatrix>;
extern template class NewtonSystem<SparseMatrix>;

}  // namespace altdiff::detail
