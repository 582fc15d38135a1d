#pragma once

#include "derivatives/null_space.hpp"

namespace altdiff::detail {

/// FlatDirections of a program that NullSpace serves, which has the user's columns (S4).
class FlatByFactors {
 public:
  FlatByFactors(const QuadraticProgram<SparseMatrix>& qp, const ActiveSet& S);

  [[nodiscard]] DenseMatrix part(const DenseMatrix& columns) const { return system_.flat_part(columns); }
  [[nodiscard]] DenseMatrix rough_part(const DenseMatrix& columns) const { return part(columns); }
  void polish(Point& solution) const;
  [[nodiscard]] const NullSpace& system() const { return system_; }

 private:
  const QuadraticProgram<SparseMatrix>& qp_;
  NullSpace system_;
};

/// Of all rows that touch the least x, T becomes S and those with a positive multiplier where the multipliers
/// of (L1) are least: rows that say the same share it, whichever of them the search met first.
void share_among_touching(const QuadraticProgram<SparseMatrix>& qp, const FlatByFactors& flat,
                          const ActiveSet& S, const Vector& x, ActiveSet& T);

}  // namespace altdiff::detail
