#pragma once

#include <altdiff/batch.hpp>

#include "batch/gradients.hpp"
#include "batch/linearisation.hpp"

namespace altdiff::detail {

/// Whether an instance has a derivative.
[[nodiscard]] bool differentiable(const BatchSolution& solution, Index i, const Missing& missing);

void set_column(PointBlock& block, Index i, double value);

/// Neighbouring instances whose gradients are made together: enough for products over the batch to be fast,
/// few enough for what lies between cotangents and gradients to be small.
struct Window {
  static constexpr Index width = 512;  // a multiple of four, whatever the number of threads
  Index first = 0, count = 0;
};

/// The adjoints of a window for some cotangents, and what belongs to them; columns are counted from the
/// window's first.
class BatchAdjoint {
 public:
  BatchAdjoint(const BatchProgram& program, const BatchSolution& solution, const BatchCotangent& bar,
               const Missing& missing, const Window& window, bool with_bounds, int num_threads);

  [[nodiscard]] AdjointBlock block() const;

  PointBlock adjoint{};          // (V1)
  PointBlock silenced{};         // the solutions, zero where they add nothing, unless everyone does
  Vector objective_bar{};        // empty: zero
  std::vector<Index> filled{};   // instances whose gradient is missing,
  std::vector<double> filler{};  // and what stands for it; their point is one
  bool everyone = true;          // no instance is left out
  std::vector<Turn> turns{};

 private:
  void find_turns(const BatchLinearisation& linearisation, const std::vector<std::uint8_t>& wanted);
  const BatchSolution& solution_;
  Window window_{};
  DenseMatrix bounds_{};  // see AdjointBlock
};

/// The right-hand side (T1) of one instance, for a change of its fields.
void add_tangent(const Instance& dot, const PointBlock& point, Index i, const Vector& side, PointBlock& r);

/// What a change of the matrices does to the gradient at `turn` (L4).
[[nodiscard]] Vector turned_gradient(const MatricesView& dot, const Point& turn);

}  // namespace altdiff::detail
