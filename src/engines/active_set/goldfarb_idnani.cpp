#include "engines/active_set/goldfarb_idnani.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/at.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {
constexpr double only_rounding = 1e-9;         // a relative violation that a dependent row may have
constexpr double clearly_independent = 1e-10;  // of the rows of a first set, which is only a guess
constexpr double no_rate = 1e-12;  // at which a multiplier turns, for a row of the same length: rounding
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr int most_restarts = 4;

}  // namespace

GoldfarbIdnani::GoldfarbIdnani(Index k, Index most, double dependent)
    : most_(std::min(k, most)),
      dependent_(dependent),
      R_(most_, most_),
      lambda_(most_ + 1),
      l_(most_),
      r_(most_),
      v_(k),
      ignored_(at(k)) {
  rows_.reserve(at(most_));
}

void GoldfarbIdnani::run(const DualProgram& program, DualState& state) {
  const int most = most_changes(program);
  state.outcome = DualState::Outcome::Stalled;
  std::ranges::fill(ignored_, 0);
  for (int restart = 0; restart < most_restarts; ++restart) {
    begin(program, state);
    if (!pivot_until_feasible(program, state, most)) return;
    if (confirm(program, state)) {
      state.outcome = DualState::Outcome::Solved;
      return;
    }
  }
}

void GoldfarbIdnani::resume(const DualProgram& program, DualState& state, const double* lambda,
                            const double* v) {
  state.outcome = DualState::Outcome::Stalled;
  std::ranges::fill(ignored_, 0);
  take_rows(program, state, dependent_);
  for (Index s = 0; s < count(); ++s) lambda_[s] = lambda[rows_[at(s)]];
  v_ = Eigen::Map<const Vector>(v, program.k);
  if (!pivot_until_feasible(program, state, state.changes + most_changes(program))) return;
  state.list_rows();
  state.lambda.assign(state.rows.size(), 0);
  for (Index s = 0; s < count(); ++s) {
    const auto place = std::ranges::lower_bound(state.rows, rows_[at(s)]) - state.rows.begin();
    state.lambda[at(place)] = lambda_[s];
  }
  if (factorise_rows(program, state)) state.outcome = DualState::Outcome::Solved;
}

bool GoldfarbIdnani::in_time(const DualProgram& program) const {
  return may_go_on(static_cast<double>(count()) * static_cast<double>(count() + program.k));
}

int GoldfarbIdnani::most_changes(const DualProgram& program) { return 50 + 20 * static_cast<int>(program.k); }

void GoldfarbIdnani::begin(const DualProgram& program, DualState& state) {
  take_rows(program, state, clearly_independent);
  take_dual_feasible_part(program, state);
  v_ = Eigen::Map<const Vector>(program.t, program.k);
  subtract_columns(program, rows_, 1, lambda_.data(), v_.data());
}

void GoldfarbIdnani::take_rows(const DualProgram& program, DualState& state, double dependent) {
  rows_.clear();
  const auto take = [&](Index i) {
    if (count() >= most_ || !in_time(program) || !append(program, i, find_direction(program, i), dependent))
      state.side[at(i)] = 0;
  };
  for (Index i = 0; i < program.k; ++i)  // rows that stay come first
    if (state.side[at(i)] != 0 && program.fixed(i)) take(i);
  for (Index i = 0; i < program.k; ++i)
    if (state.side[at(i)] != 0 && !program.fixed(i)) take(i);
}

void GoldfarbIdnani::take_dual_feasible_part(const DualProgram& program, DualState& state) {
  for (;;) {
    solve_multipliers(program, state);
    const Index before = count();
    for (Index s = count() - 1; s >= 0; --s) {
      const Index row = rows_[at(s)];
      if (!program.fixed(row) && state.side[at(row)] * lambda_[s] < 0 && in_time(program)) drop(state, s);
    }
    if (count() == before) return;
  }
}

void GoldfarbIdnani::solve_multipliers(const DualProgram& program, const DualState& state) {
  const Index size = count();
  for (Index s = 0; s < size; ++s) {
    const Index row = rows_[at(s)];
    lambda_[s] = program.t[row] - program.limit(row, state.side[at(row)]);
  }
  const auto R = R_.topLeftCorner(size, size).triangularView<Eigen::Lower>();
  const auto lambda = lambda_.head(size);
  R.solveInPlace(lambda);
  R.transpose().solveInPlace(lambda);
}

bool GoldfarbIdnani::pivot_until_feasible(const DualProgram& program, DualState& state, int most) {
  for (;;) {
    const Index row = most_violated(program, state);
    if (row < 0) return true;
    if (state.changes >= most) return false;
    switch (enter(program, state, row)) {
      case Step::Entered:
        break;
      case Step::Ignored:
        ignored_[at(row)] = 1;
        break;
      case Step::Infeasible:
        state.outcome = DualState::Outcome::Infeasible;
        return false;
      case Step::OutOfTime:
        return false;
    }
  }
}

Index GoldfarbIdnani::most_violated(const DualProgram& program, const DualState& state) const {
  Index worst = -1;
  double largest = 0;
  for (Index i = 0; i < program.k; ++i) {
    const double excess = std::max(v_[i] - program.ceiling[i], program.bottom[i] - v_[i]);
    // The product is NaN for a row that no multiplier can move: it is never chosen.
    if (!(excess > largest * program.lengths[i]) || ignored_[at(i)] != 0 || state.side[at(i)] != 0) continue;
    largest = excess / program.lengths[i];
    worst = i;
  }
  return worst;
}

GoldfarbIdnani::Step GoldfarbIdnani::enter(const DualProgram& program, DualState& state, Index row) {
  const std::int8_t side = program.violated_side(row, v_[row]);
  const double limit = program.limit(row, side);
  const double length = program.lengths[row];
  double multiplier = 0;
  for (;;) {
    if (!in_time(program)) return Step::OutOfTime;
    const double left = find_direction(program, row);
    const double violation = side * (v_[row] - limit);
    const bool moves = count() < most_ && left > dependent_ * length * length;
    const double full = moves ? violation / left : infinite;
    if (std::isnan(full)) return Step::Ignored;  // numbers beyond the largest: nobody can say
    const auto [step, place] = blocking(program, state, side, length);
    if (!std::isfinite(full) && place < 0) {
      const bool meaningless = std::isnan(full);  // numbers near the ends of the range
      if (meaningless || violation <= only_rounding * (program.size * length + std::abs(limit)))
        return Step::Ignored;
      keep_proof(program, state, row, side);
      return Step::Infeasible;
    }
    ++state.changes;
    const double length_of_step = std::min(full, step);
    move(program, row, side * length_of_step);
    multiplier += side * length_of_step;
    if (full <= step) {
      lambda_[count()] = multiplier;
      v_[row] = limit;
      state.side[at(row)] = side;
      if (!append(program, row, left, dependent_)) return Step::Ignored;
      return Step::Entered;
    }
    drop(state, place);
  }
}

double GoldfarbIdnani::find_direction(const DualProgram& program, Index row) {
  const Index size = count();
  const double* column = program.column(row);
  double left = column[row];
  for (Index s = 0; s < size; ++s) {
    l_[s] = (column[rows_[at(s)]] - R_.row(s).head(s).dot(l_.head(s))) / R_(s, s);
    left -= l_[s] * l_[s];
  }
  r_.head(size) = l_.head(size);
  for (Index s = size - 1; s >= 0; --s) {
    r_[s] /= R_(s, s);
    r_.head(s) -= r_[s] * R_.row(s).head(s).transpose();
  }
  return left;
}

std::pair<double, Index> GoldfarbIdnani::blocking(const DualProgram& program, const DualState& state,
                                                  double sign, double length) const {
  double shortest = infinite;
  Index place = -1;
  for (Index s = 0; s < count(); ++s) {
    const Index row = rows_[at(s)];
    const double rate = state.side[at(row)] * r_[s] * sign;
    if (program.fixed(row) || !(rate * program.lengths[row] > no_rate * length)) continue;
    const double step = std::max(0.0, state.side[at(row)] * lambda_[s]) / rate;
    if (step < shortest) {
      shortest = step;
      place = s;
    }
  }
  return {shortest, place};
}

void GoldfarbIdnani::move(const DualProgram& program, Index row, double step) {
  const Index size = count();
  lambda_.head(size) -= step * r_.head(size);
  v_ -= step * Eigen::Map<const Vector>(program.column(row), program.k);
  subtract_columns(program, rows_, -step, r_.data(), v_.data());
}

bool GoldfarbIdnani::append(const DualProgram& program, Index row, double left, double dependent) {
  const double length = program.lengths[row];
  if (!(left > dependent * length * length)) return false;
  const Index size = count();
  R_.row(size).head(size) = l_.head(size);
  R_(size, size) = std::sqrt(left);
  rows_.push_back(row);
  return true;
}

void GoldfarbIdnani::drop(DualState& state, Index place) {
  state.side[at(rows_[at(place)])] = 0;
  rows_.erase(rows_.begin() + place);
  const Index size = count();
  for (Index s = place; s < size; ++s) {
    lambda_[s] = lambda_[s + 1];
    R_.row(s).head(s + 2) = R_.row(s + 1).head(s + 2);
    // The row has one number too many: a rotation of two columns takes it away.
    const double radius = std::sqrt(R_(s, s) * R_(s, s) + R_(s, s + 1) * R_(s, s + 1));
    const double cosine = R_(s, s) / radius;
    const double sine = R_(s, s + 1) / radius;
    R_(s, s) = radius;
    for (Index i = s + 2; i <= size; ++i) {  // rows below, still in their old places
      const double a = R_(i, s);
      const double b = R_(i, s + 1);
      R_(i, s) = cosine * a + sine * b;
      R_(i, s + 1) = cosine * b - sine * a;
    }
  }
}

void GoldfarbIdnani::keep_proof(const DualProgram& program, DualState& state, Index row, double sign) const {
  state.rows = rows_;
  state.lambda.clear();
  for (Index s = 0; s < count(); ++s) {
    const double lambda = -sign * r_[s];
    const bool right = program.fixed(rows_[at(s)]) || state.side[at(rows_[at(s)])] * lambda > 0;
    state.lambda.push_back(right ? lambda : 0);  // what has the wrong sign blocked nothing: rounding
  }
  state.rows.push_back(row);
  state.lambda.push_back(sign);
}

bool GoldfarbIdnani::confirm(const DualProgram& program, DualState& state) {
  state.list_rows();
  if (!solve_on_rows(program, state)) return false;
  const double largest = largest_multiplier(program, state);
  for (std::size_t s = 0; s < state.rows.size(); ++s) {
    const Index row = state.rows[s];
    if (!right_sign(program, row, state.side[at(row)], state.lambda[s], largest)) return false;
  }
  row_values(program, state, v_.data());
  return most_violated(program, state) < 0;
}

}  // namespace altdiff::detail
