#pragma once

#include <span>

#include "engines/active_set/constraint_space.hpp"
#include "engines/active_set/dual_program.hpp"
#include "engines/active_set/primal_dual.hpp"
#include "problem/residuals.hpp"

namespace altdiff::detail {

inline constexpr double exact_enough = 2e-14;    // a residual that refinement could hardly lower
inline constexpr double ill_conditioned = 1e-7;  // a pivot relative to its diagonal that wants refinement

/// One dense program: its matrices, their constraint space, and its vectors. lb and ub may be null.
struct Instance {
  MatricesView matrices{};
  const ConstraintSpace* space = nullptr;
  const double* q = nullptr;
  const double* b = nullptr;
  const double* h = nullptr;
  const double* lb = nullptr;
  const double* ub = nullptr;
  const double* pull = nullptr;  // taken off q where the set is searched, but not in residuals; null: zero

  double largest_of_own_P = -1;  // where the space is that of P + R, while residuals are those of P

  [[nodiscard]] VectorsView vectors() const;
  /// Of the symmetric part of P, in absolute value.
  [[nodiscard]] double largest_P() const {
    return largest_of_own_P < 0 ? space->largest_P() : largest_of_own_P;
  }
};

/// Solves [P C_T'; C_T 0] [u; v] = [a; c], T = E and S, in place: one column a right-hand side, and one set
/// a column, or one for all. Of c_I the rows of S are read; the others are zero afterwards.            (AS6)
struct KktWorkspace {
  DenseMatrix t{};
  std::vector<double> r{};
};
template <class Set>
void solve_kkt(const ConstraintSpace& space, std::span<const Set* const> sets, Block a, Block c_E, Block c_I,
               KktWorkspace& workspace);
extern template void solve_kkt(const ConstraintSpace&, std::span<const DualState* const>, Block, Block, Block,
                               KktWorkspace&);
extern template void solve_kkt(const ConstraintSpace&, std::span<const KeptSet* const>, Block, Block, Block,
                               KktWorkspace&);

/// The products that residuals are made of, for columns with the matrices of one instance; without a space
/// its P is symmetric.
struct Products {
  DenseMatrix Px{}, Ax{}, Gx{}, Aty{}, Gtz{};

  Products() = default;
  Products(Index n, Index m, Index p, Index columns) { resize(n, m, p, columns); }
  /// Forgets its numbers.
  void resize(Index n, Index m, Index p, Index columns);
  void compute(const Instance& instance, Index first, const ConstBlock& x, const ConstBlock& y,
               const ConstBlock& z);
  [[nodiscard]] ProductsView column(Index j) const;
};

/// The active set that multipliers speak of: of every row of G, then of every variable in `bounded`, +1 at
/// its upper limit, -1 at its lower, 0 inside.
void set_sides(const std::vector<Index>& bounded, const VectorView& z, const VectorView& z_box,
               std::vector<std::int8_t>& side);

/// Active-set method for a few dense instances at a time, one column each; those that share their matrices
/// stand together. `run` sets everything public.
class ActiveSetEngine {
 public:
  /// `bounded`: the variables that have a bound in any instance.
  ActiveSetEngine(std::span<const Instance> instances, const std::vector<Index>& bounded);
  ActiveSetEngine(std::span<const Instance> instances, const std::vector<Index>& bounded, double dependent);

  /// Begins at the sets in `states`, and says there what became of each. May be called again when the
  /// instances have changed.
  void run(std::span<DualState> states);
  /// The same without a look at residuals: of what is public it sets `point` alone.
  void find(std::span<DualState> states);

  PointBlock point{};
  std::vector<Residuals> residuals{};  ///< from the user's data
  std::vector<double> objective{};
  std::vector<double> margin{};         ///< (G1)
  std::vector<std::uint8_t> refined{};  ///< whether rounding had to be mended, or derivatives will want it

  /// The proof that a column's constraints contradict each other.
  [[nodiscard]] Point proof(Index column, const DualState& state) const;

 private:
  struct Run {
    Index first, count;
  };
  [[nodiscard]] const Instance& at(Index column) const {
    return instances_[static_cast<std::size_t>(column)];
  }
  void read_vectors();
  [[nodiscard]] bool some_fixed(Index column) const {
    return some_fixed_[static_cast<std::size_t>(column)] != 0;
  }
  void widen_limits(Index column);
  void begin(Index column, std::vector<std::int8_t>& side) const;
  void find_sets(std::span<DualState> states);
  void expand(const Run& run, std::span<const DualState> states);
  void split_multipliers(const Run& run, std::span<const DualState> states);
  [[nodiscard]] PointView view(Index column) const;
  void check(const Run& run);
  void refine(const Run& run, std::span<const DualState> states);
  void add_correction(const Run& run, std::span<const DualState> states);
  [[nodiscard]] DualProgram dual_program(Index column) const;
  void mend(Index column, DualState& state);
  [[nodiscard]] bool drop_wrong_signs(Index column, DualState& state);
  [[nodiscard]] double row_size(Index column, Index row) const;
  void correct(const Run& run, std::span<DualState> state);
  void orient_fixed(const Run& run, std::span<DualState> states);
  void measure_margin(const Run& run);
  [[nodiscard]] bool touches(Index row, Index column) const;
  void mark_ill_conditioned(const Run& run, std::span<const DualState> states);

  std::span<const Instance> instances_;
  const std::vector<Index>& bounded_;
  Index n_, m_, p_, k_, columns_;
  double dependent_;  // see GoldfarbIdnani
  Index most_ = 0;    // rows of I that can be independent
  std::vector<Run> runs_;
  std::vector<DualProgram> programs_;
  PrimalDual primal_dual_;
  DenseMatrix lower_, upper_, bottom_, ceiling_, t_, lambda_;
  Products products_;
  KktWorkspace workspace_{};
  std::vector<double> size_;              // of each solution in the norm of P
  Vector values_;                         // of the rows, in the column whose margin is measured
  std::vector<std::uint8_t> some_fixed_;  // whether a column has rows whose limits are equal
  std::vector<Index> still_{};            // rows that the equalities leave next to no room
};

}  // namespace altdiff::detail
