#include "engines/active_set/engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engines/active_set/goldfarb_idnani.hpp"
#include "linalg/dense.hpp"
#include "linalg/norms.hpp"
#include "linalg/pieces.hpp"
#include "linalg/watch.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double worth_mending = 1e-11;  // a residual above is worth a look at the set
constexpr int most_refinements = 4;
constexpr double clearly_dependent = 2e-14;
constexpr double hardly = 1e-9;               // share of a row's squared length that equalities leave of it
constexpr double hardly_independent = 1e-11;  // pivot of an active row, relative: others may imply it
constexpr double touching_tol = 1e-9;         // slack of a row, relative to what its value is the sum of

std::size_t at_index(Index i) { return static_cast<std::size_t>(i); }

VectorView numbers(const double* data, Index size) {
  return Eigen::Map<const Vector>(data, data != nullptr ? size : 0);
}

}  // namespace

VectorsView Instance::vectors() const {
  return {.q = numbers(q, matrices.n),
          .b = numbers(b, matrices.p),
          .h = numbers(h, matrices.m),
          .lb = numbers(lb, matrices.n),
          .ub = numbers(ub, matrices.n)};
}

template <class Set>
void solve_kkt(const ConstraintSpace& space, std::span<const Set* const> sets, Block a, Block c_E, Block c_I,
               KktWorkspace& workspace) {
  auto& [t, r] = workspace;
  t.resize(c_I.rows(), c_I.cols());
  space.reduce(a, c_E, t);
  for (Index j = 0; j < a.cols(); ++j) {
    const Set& set = *sets[sets.size() == 1 ? 0 : at_index(j)];
    const Index count = set.count();
    r.resize(at_index(count));
    for (Index s = 0; s < count; ++s) r[at_index(s)] = t(set.row(s), j) - c_I(set.row(s), j);
    set.solve(r.data());
    c_I.col(j).setZero();
    for (Index s = 0; s < count; ++s) c_I(set.row(s), j) = r[at_index(s)];
  }
  space.expand(a, c_E, c_I);
}

template void solve_kkt(const ConstraintSpace&, std::span<const DualState* const>, Block, Block, Block,
                        KktWorkspace&);
template void solve_kkt(const ConstraintSpace&, std::span<const KeptSet* const>, Block, Block, Block,
                        KktWorkspace&);

void Products::resize(Index n, Index m, Index p, Index columns) {
  for (DenseMatrix* product : {&Px, &Aty, &Gtz}) product->resize(n, columns);
  Ax.resize(p, columns);
  Gx.resize(m, columns);
}

void Products::compute(const Instance& instance, Index first, const ConstBlock& x, const ConstBlock& y,
                       const ConstBlock& z) {
  const auto& data = instance.matrices;
  const Index count = x.cols();
  const bool symmetric = instance.space == nullptr || instance.space->symmetric();
  const auto P_x = Px.middleCols(first, count);
  multiply(Op::None, Op::None, symmetric ? 1 : 0.5, data.P_rows(), x, 0, P_x);
  if (!symmetric) multiply(Op::Transpose, Op::None, 0.5, data.P_rows(), x, 1, P_x);
  multiply(Op::Transpose, Op::None, 1, data.A_rows(), x, 0, Ax.middleCols(first, count));
  multiply(Op::Transpose, Op::None, 1, data.G_rows(), x, 0, Gx.middleCols(first, count));
  multiply(Op::None, Op::None, 1, data.A_rows(), y, 0, Aty.middleCols(first, count));
  multiply(Op::None, Op::None, 1, data.G_rows(), z, 0, Gtz.middleCols(first, count));
}

ProductsView Products::column(Index j) const {
  return {.Px = Px.col(j), .Ax = Ax.col(j), .Gx = Gx.col(j), .Aty = Aty.col(j), .Gtz = Gtz.col(j)};
}

void set_sides(const std::vector<Index>& bounded, const VectorView& z, const VectorView& z_box,
               std::vector<std::int8_t>& side) {
  const std::size_t m = at_index(z.size());
  side.resize(m + bounded.size());
  for (Index row = 0; row < z.size(); ++row) side[at_index(row)] = z[row] > 0 ? 1 : 0;
  for (std::size_t b = 0; b < bounded.size(); ++b) {
    const double multiplier = z_box[bounded[b]];
    side[m + b] = static_cast<std::int8_t>((multiplier > 0 ? 1 : 0) - (multiplier < 0 ? 1 : 0));
  }
}

ActiveSetEngine::ActiveSetEngine(std::span<const Instance> instances, const std::vector<Index>& bounded)
    : ActiveSetEngine(instances, bounded, clearly_dependent) {}

ActiveSetEngine::ActiveSetEngine(std::span<const Instance> instances, const std::vector<Index>& bounded,
                                 double dependent)
    : point{.x = DenseMatrix(instances[0].matrices.n, instances.size()),
            .y = DenseMatrix(instances[0].matrices.p, instances.size()),
            .z = DenseMatrix(instances[0].matrices.m, instances.size()),
            .z_box = DenseMatrix::Zero(instances[0].matrices.n, static_cast<Index>(instances.size()))},
      residuals(instances.size()),
      objective(instances.size()),
      margin(instances.size(), infinite),
      refined(instances.size()),
      instances_(instances),
      bounded_(bounded),
      n_(point.x.rows()),
      m_(point.z.rows()),
      p_(point.y.rows()),
      k_(m_ + static_cast<Index>(bounded.size())),
      columns_(point.x.cols()),
      dependent_(dependent),
      programs_(instances.size()),
      primal_dual_(k_, n_),
      lower_(k_, columns_),
      upper_(k_, columns_),
      bottom_(k_, columns_),
      ceiling_(k_, columns_),
      t_(k_, columns_),
      lambda_(k_, columns_),
      products_(n_, m_, p_, columns_),
      size_(instances.size()),
      values_(k_),
      some_fixed_(instances.size()) {
  for (Index j = 0; j < columns_; ++j) {
    if (runs_.empty() || at(j).space != at(runs_.back().first).space)
      runs_.push_back({.first = j, .count = 0});
    ++runs_.back().count;
  }
}

void ActiveSetEngine::find(std::span<DualState> states) {
  read_vectors();
  for (const Run& run : runs_) {
    const auto w = point.x.middleCols(run.first, run.count);
    const auto t_E = point.y.middleCols(run.first, run.count);
    at(run.first).space->reduce(w, t_E, t_.middleCols(run.first, run.count));
    const Index kept = at(run.first).space->equalities();
    for (Index j = run.first; j < run.first + run.count; ++j)
      size_[at_index(j)] = point.x.col(j).norm() + point.y.col(j).head(kept).norm();
  }
  find_sets(states);
  for (const Run& run : runs_) expand(run, states);
}

void ActiveSetEngine::run(std::span<DualState> states) {
  std::ranges::fill(refined, std::uint8_t{0});
  find(states);
  for (const Run& run : runs_) {
    check(run);
    refine(run, states);
    for (Index j = run.first; j < run.first + run.count; ++j) {
      DualState& state = states[at_index(j)];
      if (state.outcome == DualState::Outcome::Solved && !residuals[at_index(j)].below(worth_mending))
        mend(j, state);
    }
    orient_fixed(run, states);
    measure_margin(run);
    mark_ill_conditioned(run, states);
  }
}

void ActiveSetEngine::read_vectors() {
  const auto limit = [](double value) { return never_binds(value) ? std::copysign(infinite, value) : value; };
  for (Index j = 0; j < columns_; ++j) {
    const VectorsView data = at(j).vectors();
    point.x.col(j) = -data.q;
    if (at(j).pull != nullptr) point.x.col(j) += Eigen::Map<const Vector>(at(j).pull, n_);
    point.y.col(j) = data.b;
    for (Index i = 0; i < m_; ++i) {
      lower_(i, j) = -infinite;
      upper_(i, j) = limit(data.h[i]);
    }
    for (std::size_t i = 0; i < bounded_.size(); ++i) {
      const Index row = m_ + static_cast<Index>(i);
      lower_(row, j) = data.lb.size() > 0 ? limit(data.lb[bounded_[i]]) : -infinite;
      upper_(row, j) = data.ub.size() > 0 ? limit(data.ub[bounded_[i]]) : infinite;
    }
  }
}

DualProgram ActiveSetEngine::dual_program(Index column) const {
  const ConstraintSpace& space = *at(column).space;
  return {.k = k_,
          .M = space.M(),
          .stride = space.M_stride(),
          .t = t_.data() + column * k_,
          .lower = lower_.data() + column * k_,
          .upper = upper_.data() + column * k_,
          .bottom = bottom_.data() + column * k_,
          .ceiling = ceiling_.data() + column * k_,
          .lengths = space.lengths(),
          .size = size_[at_index(column)]};
}

/// By what rounding may add to them; and whether any are equal.
void ActiveSetEngine::widen_limits(Index column) {
  const double* lengths = at(column).space->lengths();
  const double* lower = lower_.data() + column * k_;
  const double* upper = upper_.data() + column * k_;
  const double size = size_[at_index(column)];
  bool fixed = false;
  for (Index i = 0; i < k_; ++i) {
    ceiling_(i, column) = upper[i] + rounding_of_row(size, lengths[i], upper[i]);
    bottom_(i, column) = lower[i] - rounding_of_row(size, lengths[i], lower[i]);
    fixed |= lower[i] == upper[i];
  }
  some_fixed_[at_index(column)] = fixed ? 1 : 0;
}

/// Fixed rows are active at the beginning, those of a warm start only where there is a limit.
void ActiveSetEngine::begin(Index column, std::vector<std::int8_t>& side) const {
  side.resize(at_index(k_));
  const bool warm = std::ranges::any_of(side, [](std::int8_t at_limit) { return at_limit != 0; });
  if (!warm && !some_fixed(column)) return;
  const DualProgram& program = programs_[at_index(column)];
  for (Index i = 0; i < k_; ++i) {
    std::int8_t& at_limit = side[at_index(i)];
    if (at_limit != 0 && std::isinf(program.limit(i, at_limit))) at_limit = 0;
    if (at_limit == 0 && program.fixed(i)) at_limit = 1;
  }
}

void ActiveSetEngine::find_sets(std::span<DualState> states) {
  most_ = 0;
  for (Index j = 0; j < columns_; ++j) {
    programs_[at_index(j)] = dual_program(j);
    most_ = std::max(most_, n_ - at(j).space->equalities());
    widen_limits(j);
    begin(j, states[at_index(j)].side);
  }
  primal_dual_.run(programs_, states, most_);
  std::optional<GoldfarbIdnani> safeguard;
  for (std::size_t j = 0; j < states.size(); ++j) {
    if (states[j].outcome == DualState::Outcome::Solved) continue;
    if (out_of_time()) return;
    if (!safeguard) safeguard.emplace(k_, most_, dependent_);
    safeguard->run(programs_[j], states[j]);
  }
}

void ActiveSetEngine::expand(const Run& run, std::span<const DualState> states) {
  for (Index j = run.first; j < run.first + run.count; ++j) {
    const DualState& state = states[at_index(j)];
    lambda_.col(j).setZero();
    if (state.outcome != DualState::Outcome::Solved) continue;
    for (std::size_t s = 0; s < state.rows.size(); ++s) lambda_(state.rows[s], j) = state.lambda[s];
  }
  at(run.first).space->expand(point.x.middleCols(run.first, run.count),
                              point.y.middleCols(run.first, run.count),
                              lambda_.middleCols(run.first, run.count));  // (AS5)
  split_multipliers(run, states);
}

void ActiveSetEngine::split_multipliers(const Run& run, std::span<const DualState> states) {
  for (Index j = run.first; j < run.first + run.count; ++j) {
    const auto& side = states[at_index(j)].side;
    point.z.col(j) = lambda_.col(j).head(m_).cwiseMax(0.0);
    for (std::size_t i = 0; i < bounded_.size(); ++i) {
      const Index row = m_ + static_cast<Index>(i);
      const bool fixed = lower_(row, j) == upper_(row, j);
      const double value = lambda_(row, j);
      point.z_box(bounded_[i], j) = fixed || side[at_index(row)] * value > 0 ? value : 0;
    }
  }
}

/// A row whose limits are equal is held by the one that it is pushed against, and by the upper one where
/// nothing pushes.
void ActiveSetEngine::orient_fixed(const Run& run, std::span<DualState> states) {
  const double* lengths = at(run.first).space->lengths();
  for (Index j = run.first; j < run.first + run.count; ++j) {
    DualState& state = states[at_index(j)];
    if (state.outcome != DualState::Outcome::Solved || !some_fixed(j)) continue;
    double largest = size_[at_index(j)];
    for (const Index row : state.rows) largest = std::max(largest, std::abs(lambda_(row, j)) * lengths[row]);
    for (std::size_t s = 0; s < state.rows.size(); ++s) {
      const Index row = state.rows[s];
      if (row < m_ || lower_(row, j) != upper_(row, j)) continue;
      double& lambda = lambda_(row, j);
      if (std::abs(lambda) * lengths[row] <= rounding * largest) lambda = 0;
      state.lambda[s] = lambda;
      state.side[at_index(row)] = lambda < 0 ? -1 : 1;
      point.z_box(bounded_[at_index(row - m_)], j) = lambda;
    }
  }
}

PointView ActiveSetEngine::view(Index column) const {
  return {.x = point.x.col(column),
          .y = point.y.col(column),
          .z = point.z.col(column),
          .z_box = point.z_box.col(column)};
}

void ActiveSetEngine::check(const Run& run) {
  products_.compute(at(run.first), run.first, point.x.middleCols(run.first, run.count),
                    point.y.middleCols(run.first, run.count), point.z.middleCols(run.first, run.count));
  for (Index j = run.first; j < run.first + run.count; ++j) {
    const VectorsView data = at(j).vectors();
    residuals[at_index(j)] = relative_residuals(data, view(j), products_.column(j), at(j).largest_P());
    objective[at_index(j)] = point.x.col(j).dot(0.5 * products_.Px.col(j) + data.q);
  }
}

void ActiveSetEngine::refine(const Run& run, std::span<const DualState> states) {
  const auto worst = [&] {
    double largest = 0;
    for (Index j = run.first; j < run.first + run.count; ++j)
      if (states[at_index(j)].outcome == DualState::Outcome::Solved)
        largest = std::max(largest, residuals[at_index(j)].worst());
    return largest;
  };
  double before = worst();
  const double work = 4 * multiplications(n_ + m_ + p_, n_, run.count);
  for (int round = 0; round < most_refinements && before > exact_enough && may_go_on(work); ++round) {
    const PointBlock kept = point;
    const DenseMatrix kept_lambda = lambda_;
    const auto kept_residuals = residuals;
    add_correction(run, states);
    check(run);
    for (Index j = run.first; j < run.first + run.count; ++j) {
      const bool better = residuals[at_index(j)].worst() < kept_residuals[at_index(j)].worst();
      if (kept_residuals[at_index(j)].worst() > exact_enough) refined[at_index(j)] = 1;
      if (better && kept_residuals[at_index(j)].worst() > exact_enough) continue;
      point.x.col(j) = kept.x.col(j);
      point.y.col(j) = kept.y.col(j);
      point.z.col(j) = kept.z.col(j);
      point.z_box.col(j) = kept.z_box.col(j);
      lambda_.col(j) = kept_lambda.col(j);
    }
    check(run);
    const double after = worst();
    if (!(after < 0.5 * before)) return;
    before = after;
  }
}

void ActiveSetEngine::add_correction(const Run& run, std::span<const DualState> states) {
  DenseMatrix a(n_, run.count);
  DenseMatrix c_E(p_, run.count);
  DenseMatrix c_I = DenseMatrix::Zero(k_, run.count);
  std::vector<const DualState*> columns;
  columns.reserve(at_index(run.count));
  const DualState empty;  // for a column whose set means nothing
  for (Index c = 0; c < run.count; ++c) {
    const Index j = run.first + c;
    const VectorsView data = at(j).vectors();
    const bool solved = states[at_index(j)].outcome == DualState::Outcome::Solved;
    const DualState& state = solved ? states[at_index(j)] : empty;
    columns.push_back(&state);
    a.col(c) =
        -(products_.Px.col(j) + data.q + products_.Aty.col(j) + products_.Gtz.col(j) + point.z_box.col(j));
    c_E.col(c) = data.b - products_.Ax.col(j);
    for (const Index row : state.rows) {
      const double value = row < m_ ? products_.Gx(row, j) : point.x(bounded_[at_index(row - m_)], j);
      c_I(row, c) = (state.side[at_index(row)] > 0 ? upper_(row, j) : lower_(row, j)) - value;
    }
  }
  solve_kkt<DualState>(*at(run.first).space, columns, a, c_E, c_I, workspace_);
  point.x.middleCols(run.first, run.count) += a;
  point.y.middleCols(run.first, run.count) += c_E;
  lambda_.middleCols(run.first, run.count) += c_I;
  split_multipliers(run, states);
}

/// Whether a row that no multiplier can move, and that is not one of zeros, is at one of its limits, up to
/// the rounding of an x of which a part may be zero.
bool ActiveSetEngine::touches(Index row, Index column) const {
  const double largest = row < m_ ? at(column).matrices.G_rows().col(row).cwiseAbs().maxCoeff() : 1;
  const double size = largest * point.x.col(column).cwiseAbs().maxCoeff();
  if (largest == 0) return false;
  const double slack = std::min(upper_(row, column) - values_[row], values_[row] - lower_(row, column));
  return slack <= touching_tol * size;
}

namespace {

/// Whether the equalities leave a row next to no room.
bool hardly_moves(Index row, const ConstraintSpace& space) {
  const double length = space.lengths()[row];
  return std::isinf(length) || !(space.M()[row * (space.M_stride() + 1)] > hardly * length * length);
}

}  // namespace

void ActiveSetEngine::measure_margin(const Run& run) {
  const ConstraintSpace& space = *at(run.first).space;
  const Eigen::Map<const Eigen::ArrayXd> lengths(space.lengths(), k_);
  const bool some_infinite = (lengths == infinite).any();
  still_.clear();
  for (Index i = 0; i < k_; ++i)
    if (hardly_moves(i, space)) still_.push_back(i);
  for (Index j = run.first; j < run.first + run.count; ++j) {
    values_.head(m_) = products_.Gx.col(j);
    values_.tail(k_ - m_) = point.x.col(j)(bounded_);
    const auto lower = lower_.col(j).array();
    const auto upper = upper_.col(j).array();
    const auto slack = (upper - values_.array()).min(values_.array() - lower) / lengths;
    const auto room = slack.max(lambda_.col(j).array().abs() * lengths);
    double smallest = infinite;
    if (some_infinite || some_fixed(j))
      smallest = (lower == upper || lengths == infinite).select(infinite, room).minCoeff();
    else if (k_ > 0)
      smallest = room.minCoeff();
    for (const Index i : still_)  // what touches there is implied by the equalities
      if (lower[i] == upper[i] || touches(i, j)) smallest = 0;
    const double size = size_[at_index(j)];
    margin[at_index(j)] = size > 0 ? smallest / size : smallest;  // (G1)
  }
}

void ActiveSetEngine::mark_ill_conditioned(const Run& run, std::span<const DualState> states) {
  const ConstraintSpace& space = *at(run.first).space;
  for (Index j = run.first; j < run.first + run.count; ++j) {
    const DualState& state = states[at_index(j)];
    if (state.outcome != DualState::Outcome::Solved) continue;
    for (Index i = 0; some_fixed(j) && i < k_; ++i)  // not in the set: it depends on others
      if (lower_(i, j) == upper_(i, j) && state.side[at_index(i)] == 0) margin[at_index(j)] = 0;
    const std::size_t count = state.rows.size();
    double smallest = 1;  // of the rows of S
    for (std::size_t s = 0; s < count; ++s) {
      const double pivot = state.pivot(s);
      const double length = space.lengths()[state.rows[s]];
      smallest = std::min(smallest, pivot * pivot / (length * length));
    }
    if (smallest < hardly_independent) margin[at_index(j)] = 0;
    smallest = std::min({smallest, space.smallest_pivot(), space.equality_pivot()});
    if (smallest < ill_conditioned) refined[at_index(j)] = 1;
  }
}

Point ActiveSetEngine::proof(Index column, const DualState& state) const {
  DenseMatrix lambda = DenseMatrix::Zero(k_, 1);
  for (std::size_t s = 0; s < state.rows.size(); ++s) lambda(state.rows[s], 0) = state.lambda[s];
  DenseMatrix nothing = DenseMatrix::Zero(n_, 1);
  DenseMatrix y = DenseMatrix::Zero(p_, 1);
  at(column).space->expand(nothing, y, lambda);
  return {.x = Vector::Zero(n_), .y = y, .z = lambda.topRows(m_), .z_box = Vector::Zero(n_)};
}

}  // namespace altdiff::detail
