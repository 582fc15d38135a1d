#include "batch/pullback.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/at.hpp"

namespace altdiff::detail {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// What a caller passed of the window's columns, or zero.
DenseMatrix block_or_zero(const double* data, Index rows, const Window& window) {
  if (data == nullptr) return DenseMatrix::Zero(rows, window.count);
  return Eigen::Map<const DenseMatrix>(data + window.first * rows, rows, window.count);
}

/// The sum of the absolute values of a cotangent: zero if it is, not finite if one of its numbers is not.
double size_of(const double* block, Index rows, Index i) {
  if (block == nullptr) return 0;
  return Eigen::Map<const Vector>(block + i * rows, rows).cwiseAbs().sum();
}

DenseMatrix active_bounds(const BatchProgram& program, const BatchLinearisation& linearisation,
                          const Window& window, const std::vector<std::uint8_t>& wanted) {
  DenseMatrix bounds = DenseMatrix::Zero(program.n, window.count);
  for (Index c = 0; c < window.count; ++c)
    if (wanted[at(c)] != 0)
      bounds.col(c) = linearisation.active_bounds(window.first + c, program.n, program.m);
  return bounds;
}

/// The part of a window that a vjp is about; columns are counted from the window's first.
struct Pullback {
  PointBlock bar;                    // cotangents; what adds nothing is zero
  Vector objective_bar;              // empty: zero
  std::vector<std::uint8_t> wanted;  // instances to solve for
  std::vector<Index> filled;         // instances whose gradient is missing, with what stands for it
  std::vector<double> filler;
  bool everyone = true;  // no instance is left out
};

Pullback read_cotangents(const BatchProgram& program, const BatchSolution& solution,
                         const BatchCotangent& bar, const Missing& missing, const Window& window) {
  const Index box = program.has_bounds() ? program.n : 0;
  Pullback pull{.bar = {.x = block_or_zero(bar.x, program.n, window),
                        .y = block_or_zero(bar.y, program.p, window),
                        .z = block_or_zero(bar.z, program.m, window),
                        .z_box = block_or_zero(box > 0 ? bar.z_box : nullptr, box, window)},
                .objective_bar = {},
                .wanted = std::vector<std::uint8_t>(at(window.count), 1),
                .filled = {},
                .filler = {}};
  if (bar.objective != nullptr)
    pull.objective_bar = Eigen::Map<const Vector>(bar.objective + window.first, window.count);
  for (Index c = 0; c < window.count; ++c) {
    const Index i = window.first + c;
    const double objective_bar = bar.objective != nullptr ? bar.objective[i] : 0;
    const double weight = size_of(bar.x, program.n, i) + size_of(bar.y, program.p, i) +
                          size_of(bar.z, program.m, i) + size_of(bar.z_box, program.n, i);
    const bool none = weight == 0;
    const bool finite = std::isfinite(weight) && std::isfinite(objective_bar);
    const bool known = differentiable(solution, i, missing);
    if (!none && finite && known) continue;
    pull.wanted[at(c)] = 0;
    if (none && finite && (objective_bar == 0 || known)) {
      pull.everyone = pull.everyone && known;
      continue;
    }
    pull.everyone = false;
    set_column(pull.bar, c, 0);
    pull.filled.push_back(c);
    pull.filler.push_back(known ? nan : missing.value);
  }
  return pull;
}

/// Solutions of instances that add nothing may be NaN, which zero does not silence.
PointBlock silenced_points(const BatchSolution& solution, const Missing& missing, const Window& window) {
  const auto columns = [&](const DenseMatrix& block) { return block.middleCols(window.first, window.count); };
  const PointBlock& all = solution.point;
  PointBlock point{
      .x = columns(all.x), .y = columns(all.y), .z = columns(all.z), .z_box = columns(all.z_box)};
  for (Index c = 0; c < window.count; ++c)
    if (!differentiable(solution, window.first + c, missing)) set_column(point, c, 0);
  return point;
}

}  // namespace

bool differentiable(const BatchSolution& solution, Index i, const Missing& missing) {
  return missing.differentiable(solution.linearisation->instances[at(i)].known(), solution.status[at(i)]);
}

void set_column(PointBlock& block, Index i, double value) {
  block.x.col(i).setConstant(value);
  block.y.col(i).setConstant(value);
  block.z.col(i).setConstant(value);
  block.z_box.col(i).setConstant(value);
}

BatchAdjoint::BatchAdjoint(const BatchProgram& program, const BatchSolution& solution,
                           const BatchCotangent& bar, const Missing& missing, const Window& window,
                           bool with_bounds, int num_threads)
    : solution_(solution), window_(window) {
  const BatchLinearisation& linearisation = *solution.linearisation;
  Pullback pull = read_cotangents(program, solution, bar, missing, window);
  everyone = pull.everyone;
  adjoint = std::move(pull.bar);
  find_turns(linearisation, pull.wanted);
  linearisation.solve(program, window.first, adjoint, pull.wanted, num_threads);  // (V1)
  if (!everyone) silenced = silenced_points(solution, missing, window);
  filled = std::move(pull.filled);
  filler = std::move(pull.filler);
  objective_bar = std::move(pull.objective_bar);
  for (std::size_t f = 0; f < filled.size(); ++f) {
    set_column(adjoint, filled[f], filler[f]);
    set_column(silenced, filled[f], 1);
    if (objective_bar.size() > 0) objective_bar[filled[f]] = 0;
  }
  if (with_bounds) bounds_ = active_bounds(program, linearisation, window, pull.wanted);
}

void BatchAdjoint::find_turns(const BatchLinearisation& linearisation,
                              const std::vector<std::uint8_t>& wanted) {
  for (Index c = 0; c < window_.count; ++c) {
    const auto& other = linearisation.instances[at(window_.first + c)].other;
    if (wanted[at(c)] == 0 || other == nullptr || other->turn() == nullptr) continue;
    turns.push_back({.column = c, .u = other->turn(), .flat = other->flat_part(adjoint.x.col(c))});
  }
}

AdjointBlock BatchAdjoint::block() const {
  const auto columns = [&](const DenseMatrix& all, const DenseMatrix& own) {
    return everyone ? ConstBlock(all.middleCols(window_.first, window_.count)) : ConstBlock(own);
  };
  const PointBlock& all = solution_.point;
  return {.first = window_.first,
          .point = {.x = columns(all.x, silenced.x),
                    .y = columns(all.y, silenced.y),
                    .z = columns(all.z, silenced.z),
                    .z_box = columns(all.z_box, silenced.z_box)},
          .adjoint = {.x = adjoint.x, .y = adjoint.y, .z = adjoint.z, .z_box = adjoint.z_box},
          .objective_bar = objective_bar,
          .active_bounds = bounds_,
          .turns = turns};
}

void add_tangent(const Instance& dot, const PointBlock& point, Index i, const Vector& side, PointBlock& r) {
  const auto x = point.x.col(i);
  const VectorsView vectors = dot.vectors();
  if (dot.matrices.P != nullptr) {
    r.x.col(i) += 0.5 * (dot.matrices.P_rows() * x);  // only the symmetric part counts
    r.x.col(i) += 0.5 * (dot.matrices.P_rows().transpose() * x);
  }
  if (dot.q != nullptr) r.x.col(i) += vectors.q;
  if (dot.matrices.A != nullptr) {
    r.x.col(i) += dot.matrices.A_rows() * point.y.col(i);
    r.y.col(i) += dot.matrices.A_rows().transpose() * x;
  }
  if (dot.b != nullptr) r.y.col(i) -= vectors.b;
  if (dot.matrices.G != nullptr) {
    r.x.col(i) += dot.matrices.G_rows() * point.z.col(i);
    r.z.col(i) += dot.matrices.G_rows().transpose() * x;
  }
  if (dot.h != nullptr) r.z.col(i) -= vectors.h;
  const Vector none = Vector::Zero(x.size());
  if (dot.lb != nullptr) r.z_box.col(i) -= (side.array() < 0).select(vectors.lb, none);
  if (dot.ub != nullptr) r.z_box.col(i) -= (side.array() > 0).select(vectors.ub, none);  // (T1)
}

Vector turned_gradient(const MatricesView& dot, const Point& turn) {
  Vector g = Vector::Zero(turn.x.size());
  if (dot.P != nullptr) {
    g += 0.5 * (dot.P_rows() * turn.x);
    g += 0.5 * (dot.P_rows().transpose() * turn.x);
  }
  if (dot.A != nullptr) g += dot.A_rows() * turn.y;
  if (dot.G != nullptr) g += dot.G_rows() * turn.z;
  return g;
}

}  // namespace altdiff::detail
