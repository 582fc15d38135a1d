#pragma once

#include <altdiff/batch.hpp>

#include "derivatives/linearisation.hpp"
#include "engines/active_set/proximal.hpp"
#include "engines/active_set/quartet.hpp"
#include "linalg/memory.hpp"
#include "linalg/spares.hpp"

namespace altdiff::detail {

/// What the derivatives of one instance need: its lane of a quartet; its active set on a space that it may
/// share; or, where another engine solved it, that one's linearisation.
struct Linearised {
  const Quartet* quartet = nullptr;  // whose lane is the instance's place in the batch modulo four
  const ConstraintSpace* space = nullptr;
  KeptSet set{};
  int refinements =
      0;  // after a solve on the space, which is not quite that of the user's P, or ill conditioned
  std::shared_ptr<const OwnSpace> own{};  // where the space is not one of the batch's
  std::shared_ptr<const Linearisation> other{};

  /// By the active set of a column of an engine.
  static Linearised by_set(const ActiveSetEngine& engine, Index column, const ConstraintSpace& space,
                           const DualState& state, std::shared_ptr<const OwnSpace> own);

  [[nodiscard]] bool known() const { return quartet != nullptr || space != nullptr || other != nullptr; }
};

/// How many instances are worked on at a time: those that share matrices gain from long rows of columns,
/// others fill the lanes of a vector. Never depends on the number of threads, so that the answers do not.
struct Chunks {
  Index size = 0, width = 1;

  /// `spaces`: how many different sets of matrices there are.
  static Chunks of(const BatchProgram& program, Index spaces);

  [[nodiscard]] Index count() const { return (size + width - 1) / width; }
  [[nodiscard]] Index first(Index chunk) const { return chunk * width; }
  [[nodiscard]] Index last(Index chunk) const { return std::min(size, (chunk + 1) * width); }
};

/// The instances of a batch at their solutions. Keeps what derivatives need and no more: of the data only
/// what the sweep made of them, (n + p + k) n + (p + k) p numbers for every distinct set of matrices (k:
/// inequalities and bounded variables), and |S|^2 / 2 for every instance, or k^2 in a quartet.
class BatchLinearisation {
 public:
  Chunks chunks{};
  std::vector<Index> bounded{};  // variables with a bound in any instance
  Memory memory{};
  std::vector<ConstraintSpace> spaces{};
  std::vector<Quartet> quartets{};
  std::vector<Linearised> instances{};

  /// Solves (A2) in place, one column an instance, of which the first is `first`, a multiple of four;
  /// instances where `wanted` is false are left alone. Without bounds t.z_box may have no rows.
  void solve(const BatchProgram& program, Index first, PointBlock& t, const std::vector<std::uint8_t>& wanted,
             int num_threads) const;

  /// The same of one instance, one column a right-hand side.
  [[nodiscard]] PointBlock solve(const BatchProgram& program, Index instance,
                                 const PointBlock& right_side) const;

  /// The active bounds of one instance: +1 at ub, -1 at lb, 0 inside.
  [[nodiscard]] Vector active_bounds(Index instance, Index n, Index m) const;
  /// The active rows of G of one instance: 1 or 0.
  [[nodiscard]] Vector active_rows(Index instance, Index m) const;

 private:
  struct Columns;
  void solve_columns(Columns& columns, Block x, Block y, Block z, Block z_box) const;
  void solve_once(Columns& columns, Block x, Block y, Block z, Block z_box) const;
  void refine(Columns& columns, Block x, Block y, Block z, Block z_box) const;
  /// Of the inequalities and the bounded variables: +1 at upper, -1 at lower, 0 inside.
  [[nodiscard]] Vector active_sides(Index instance, Index m) const;
  /// The instances from first + column on.
  void solve_quartet(Index first, Index column, const std::vector<std::uint8_t>& wanted, PointBlock& t) const;
  /// Lane l holds column columns[l]; a negative one is left out.
  void solve_lanes(const Quartet& quartet, const std::array<Index, lanes>& columns, PointBlock& t) const;
  static void solve_elsewhere(const Linearised& instance, Index column, PointBlock& t);
};

/// Instance i of a batch, without a space.
[[nodiscard]] Instance instance_of(const BatchProgram& program, Index i);

}  // namespace altdiff::detail
