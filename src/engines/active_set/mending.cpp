#include <algorithm>
#include <cmath>

#include "engines/active_set/engine.hpp"
#include "engines/active_set/goldfarb_idnani.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr double good_enough = 1e-11;  // a residual that needs no further look at the set
constexpr int most_corrections = 4;
constexpr int most_mends = 8;

std::size_t at_index(Index i) { return static_cast<std::size_t>(i); }

}  // namespace

void ActiveSetEngine::correct(const Run& run, std::span<DualState> state) {
  for (int round = 0; round < most_corrections; ++round) {
    const double before = residuals[at_index(run.first)].worst();
    add_correction(run, state);
    check(run);
    if (!(residuals[at_index(run.first)].worst() < 0.5 * before)) return;
  }
}

/// Where the unconstrained minimiser is far away, values of rows that were computed from it cannot tell right
/// signs from wrong. From here on the point itself is the origin: values come from the user's data, and the
/// set changes by steps from them.
void ActiveSetEngine::mend(Index column, DualState& state) {
  const Run run{.first = column, .count = 1};
  // add_correction and its like index states by column.
  const std::span<DualState> states(&state - column, at_index(column) + 1);
  GoldfarbIdnani pivots(k_, most_, dependent_);
  Vector values(k_);
  for (int attempt = 0; attempt < most_mends && !out_of_time(); ++attempt) {
    correct(run, states);
    if (residuals[at_index(column)].below(good_enough)) return;
    if (drop_wrong_signs(column, state)) continue;
    DualProgram local = dual_program(column);
    local.size = std::sqrt(std::max(0.0, point.x.col(column).dot(products_.Px.col(column))));
    for (Index i = 0; i < k_; ++i) {
      values[i] = i < m_ ? products_.Gx(i, column) : point.x(bounded_[at_index(i - m_)], column);
      const double size = row_size(column, i);
      ceiling_(i, column) = upper_(i, column) + rounding * (size + std::abs(upper_(i, column)));
      bottom_(i, column) = lower_(i, column) - rounding * (size + std::abs(lower_(i, column)));
    }
    DualState before = state;
    pivots.resume(local, state, lambda_.col(column).data(), values.data());
    if (state.outcome != DualState::Outcome::Solved) {
      if (state.outcome == DualState::Outcome::Stalled) state = std::move(before);
      return;
    }
    lambda_.col(column).setZero();
    for (std::size_t s = 0; s < state.rows.size(); ++s) lambda_(state.rows[s], column) = state.lambda[s];
    split_multipliers(run, states);
    check(run);
  }
}

double ActiveSetEngine::row_size(Index column, Index row) const {
  const auto x = point.x.col(column);
  if (row >= m_) return std::abs(x[bounded_[at_index(row - m_)]]);
  return at(column).matrices.G_rows().col(row).cwiseAbs().dot(x.cwiseAbs());
}

bool ActiveSetEngine::drop_wrong_signs(Index column, DualState& state) {
  const DualProgram program = dual_program(column);
  bool dropped = false;
  double largest = 0;
  for (const Index row : state.rows)
    largest = std::max(largest, std::abs(lambda_(row, column)) * program.lengths[row]);
  for (const Index row : state.rows) {
    std::int8_t& side = state.side[at_index(row)];
    if (program.fixed(row) || side * lambda_(row, column) * program.lengths[row] >= -rounding * largest)
      continue;
    side = 0;
    lambda_(row, column) = 0;
    dropped = true;
  }
  if (!dropped) return false;
  state.list_rows();
  if (!factorise_rows(program, state)) state.outcome = DualState::Outcome::Stalled;
  return dropped;
}

}  // namespace altdiff::detail
