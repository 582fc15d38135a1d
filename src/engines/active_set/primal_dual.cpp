#include "engines/active_set/primal_dual.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {
constexpr Index together = 64;          // rows up to which four sets are factorised side by side
constexpr std::size_t worth_lanes = 2;  // instances
}  // namespace

PrimalDual::PrimalDual(Index k, Index largest)
    : cholesky_(std::min({together, k, largest})), v_(static_cast<std::size_t>(k)) {
  running_.reserve(lanes);
}

void PrimalDual::run(std::span<const DualProgram> programs, std::span<DualState> states, Index most) {
  most_ = most;
  running_.clear();
  for (DualState& state : states) state.outcome = DualState::Outcome::Stalled;
  for (std::size_t next = 0; next < programs.size() || !running_.empty();) {
    while (std::ssize(running_) < lanes && next < programs.size()) {
      Lane lane = entered(programs[next], states[next]);
      ++next;
      if (!lane.state->rows.empty() || !settle(lane)) running_.push_back(lane);
    }
    if (!may_go_on(work(running_))) return;
    solve(running_);
    std::erase_if(running_, [this](Lane& lane) { return settle(lane); });
  }
}

double PrimalDual::work(const std::vector<Lane>& running) {
  double sum = 0;
  for (const Lane& lane : running) {
    const auto count = static_cast<double>(lane.state->count());
    sum += count * (count * count / 6 + static_cast<double>(lane.program->k));
  }
  return sum;
}

PrimalDual::Lane PrimalDual::entered(const DualProgram& program, DualState& state) const {
  const auto k = static_cast<std::size_t>(program.k);
  state.rows.reserve(k);
  state.lambda.reserve(static_cast<std::size_t>(std::min(program.k, most_)));
  state.list_rows();
  return {.program = &program, .state = &state, .fewest_wrong = std::numeric_limits<int>::max()};
}

void PrimalDual::solve(std::vector<Lane>& running) {
  std::erase_if(running, [this](const Lane& lane) { return lane.state->count() > most_; });
  const bool small = std::ranges::all_of(
      running, [this](const Lane& lane) { return lane.state->count() <= cholesky_.largest(); });
  if (small && running.size() >= worth_lanes) {
    solve_together(running);
    return;
  }
  std::erase_if(running, [](Lane& lane) {
    lane.slot = -1;
    return !solve_on_rows(*lane.program, *lane.state);
  });
}

void PrimalDual::gather(const Lane& lane, Index slot, Index size) {
  const auto& [program, state] = std::tie(*lane.program, *lane.state);
  const auto count = state.count();
  for (Index i = 0; i < count; ++i) {
    const Index row = state.rows[static_cast<std::size_t>(i)];
    const double* column = program.column(row);
    for (Index j = 0; j <= i; ++j)
      cholesky_.entry(i, j, slot) = column[state.rows[static_cast<std::size_t>(j)]];
    cholesky_.right_side(i, slot) =
        program.t[row] - program.limit(row, state.side[static_cast<std::size_t>(row)]);
  }
  for (Index i = count; i < size; ++i) {
    for (Index j = 0; j < i; ++j) cholesky_.entry(i, j, slot) = 0;
    cholesky_.entry(i, i, slot) = 1;
    cholesky_.right_side(i, slot) = 0;
  }
}

void PrimalDual::solve_together(std::vector<Lane>& running) {
  if (running.empty()) return;
  Index size = 0;
  for (const Lane& lane : running) size = std::max(size, lane.state->count());
  cholesky_.resize(size);
  for (Index slot = 0; slot < lanes; ++slot) {
    // A missing lane repeats the last one.
    const auto l = std::min(static_cast<std::size_t>(slot), running.size() - 1);
    gather(running[l], slot, size);
    if (std::cmp_equal(slot, l)) running[l].slot = slot;
  }
  const auto failed = cholesky_.solve(smallest_pivot);
  for (const Lane& lane : running) {
    auto& lambda = lane.state->lambda;
    lambda.resize(lane.state->rows.size());
    for (std::size_t i = 0; i < lambda.size(); ++i)
      lambda[i] = cholesky_.right_side(static_cast<Index>(i), lane.slot);
  }
  std::erase_if(running, [&](const Lane& lane) { return failed[static_cast<std::size_t>(lane.slot)]; });
}

bool PrimalDual::settle(Lane& lane) {
  row_values(*lane.program, *lane.state, v_.data());
  const int wrong = flip_wrong_signs(lane);
  if (wrong == 0) {
    lane.state->outcome = DualState::Outcome::Solved;
    if (lane.slot >= 0) keep_factor(lane);
    return true;
  }
  ++lane.state->changes;
  lane.state->list_rows();
  lane.idle = wrong < lane.fewest_wrong ? 0 : lane.idle + 1;
  lane.fewest_wrong = std::min(lane.fewest_wrong, wrong);
  return lane.idle >= patience;
}

int PrimalDual::flip_wrong_signs(Lane& lane) {
  const DualProgram& program = *lane.program;
  DualState& state = *lane.state;
  const double largest = largest_multiplier(program, state);
  int wrong = 0;
  for (std::size_t s = 0; s < state.rows.size(); ++s) {
    const Index row = state.rows[s];
    std::int8_t& side = state.side[static_cast<std::size_t>(row)];
    v_[static_cast<std::size_t>(row)] = program.limit(row, side);  // which rounding may have missed
    if (right_sign(program, row, side, state.lambda[s], largest)) continue;
    side = 0;
    ++wrong;
  }
  // The value of an active row is its limit, which never violates it: no need to ask who is active.
  for (Index i = 0; i < program.k; ++i) {
    const std::int8_t violated = program.violated_side(i, v_[static_cast<std::size_t>(i)]);
    std::int8_t& side = state.side[static_cast<std::size_t>(i)];
    side = static_cast<std::int8_t>(side + violated);
    wrong += violated != 0 ? 1 : 0;
  }
  return wrong;
}

void PrimalDual::keep_factor(const Lane& lane) {
  const auto count = lane.state->count();
  auto& factor = lane.state->factor;
  const Index stride = lane.state->stride();
  factor.resize(static_cast<std::size_t>(count * stride));
  for (Index i = 0; i < count; ++i)
    for (Index j = 0; j <= i; ++j)
      factor[static_cast<std::size_t>(j * stride + i)] = cholesky_.entry(i, j, lane.slot);
}

}  // namespace altdiff::detail
