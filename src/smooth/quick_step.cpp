#include "smooth/quick_step.hpp"

#include "batch/kinks.hpp"

namespace altdiff::detail {

QuickStep::QuickStep(Index n, Index m, Index p, const std::vector<Index>& bounded)
    : bounded_(bounded),
      memory_(ConstraintSpace::memory(n, p, m + std::ssize(bounded))),
      M_(ConstraintSpace::memory_of_M(m + std::ssize(bounded))),
      instance_{.matrices = {.n = n, .m = m, .p = p}},
      engine_({&instance_, 1}, bounded_) {}

Index QuickStep::numbers() const {
  const MatricesView& sizes = instance_.matrices;
  const Index k = sizes.m + std::ssize(bounded_);
  return ConstraintSpace::memory(sizes.n, sizes.p, k) + ConstraintSpace::memory_of_M(k);
}

Spare<QuickStep> QuickStep::of_size(Index n, Index m, Index p, const std::vector<Index>& bounded) {
  const auto fits = [&](const QuickStep& quick) {
    const MatricesView& sizes = quick.instance_.matrices;
    return sizes.n == n && sizes.m == m && sizes.p == p && quick.bounded_ == bounded;
  };
  return spare<QuickStep>(fits, n, m, p, bounded);
}

void QuickStep::begin(const Instance& instance, const ConstraintSpace& space, const VectorView& z,
                      const VectorView& z_box) {
  instance_ = instance;
  instance_.space = &space;
  set_sides(bounded_, z, z_box, state_.side);
  state_.changes = 0;
}

bool QuickStep::solve(const Instance& instance, const VectorView& z, const VectorView& z_box, int threads) {
  space_ = ConstraintSpace(instance.matrices, bounded_, memory_.data(), M_.data(), threads);
  if (!space_.usable()) return false;
  begin(instance, space_, z, z_box);
  engine_.find({&state_, 1});
  return state_.outcome == DualState::Outcome::Solved && point().x.allFinite();
}

bool QuickStep::solve_exactly(const Instance& instance, const VectorView& z, const VectorView& z_box,
                              double tolerance, int threads, AtSolution& found) {
  auto own = std::make_shared<const OwnSpace>(instance.matrices, bounded_, M_.data(), threads);
  const ConstraintSpace& space = own->space;
  if (!space.usable() || space.equalities() < instance.matrices.p) return false;
  begin(instance, space, z, z_box);
  engine_.run({&state_, 1});
  const bool solved = state_.outcome == DualState::Outcome::Solved && engine_.residuals[0].below(tolerance);
  if (!solved || engine_.margin[0] < degenerate_margin ||
      leaks_at_vertex(instance, space.equalities() + state_.count()))
    return false;
  found = {.linearised = Linearised::by_set(engine_, 0, space, state_, std::move(own)),
           .margin = engine_.margin[0]};
  return true;
}

}  // namespace altdiff::detail
