#include "derivatives/least_norm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "derivatives/on_set.hpp"
#include "engines/active_set/goldfarb_idnani.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_growths = 100;         // of the list of rows that may hold x back
constexpr double violated_tol = 1e-12;   // relative to x and to the limit
constexpr double dependent_tol = 2e-14;  // see GoldfarbIdnani
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr RoundLimits to_rounding{.tolerance = 1e-15, .max_rounds = 12, .patience = 2};

/// (L1) as (AS3). With Pi the projection on the flat directions, rows C that may hold x back have the values
/// v = C x_1 - C Pi C'lambda, where x_1 is the least x on S alone. Few do: the list of them begins with those
/// that x_1 violates, and grows as long as the least x on it violates others.
template <Matrix M>
class HoldingRows {
 public:
  HoldingRows(const QuadraticProgram<M>& qp, const ActiveSet& S)
      : qp_(qp), S_(S), is_listed_(at(qp.m() + qp.n())) {}

  /// The least x and the set T that it is on, from the least x on S. False if no such set was found.
  [[nodiscard]] bool find(const FlatDirections<M>& flat, Vector& x, ActiveSet& T) {
    const Vector first = x;
    for (int growth = 0; growth < max_growths; ++growth) {
      if (!list_violated(x, flat)) return true;
      if (!search(first)) return false;
      x = first;
      T = S_;
      for (Index s = 0; s < state_.count(); ++s) {
        const Index i = state_.row(s);
        x -= state_.lambda[at(s)] * moved_.col(i);
        const Index row = rows_[at(i)];
        const double side = state_.side[at(i)];
        (row < qp_.m() ? T.z[row] : T.box[row - qp_.m()]) = side;
      }
    }
    return false;
  }

 private:
  [[nodiscard]] double lower(Index row) const { return row < qp_.m() ? -infinite : qp_.lb[row - qp_.m()]; }
  [[nodiscard]] double upper(Index row) const { return row < qp_.m() ? qp_.h[row] : qp_.ub[row - qp_.m()]; }
  [[nodiscard]] static double slack(double size, double limit) {
    return violated_tol * (size + (std::isfinite(limit) ? std::abs(limit) : 0));
  }

  /// Adds rows to the list; false if there are none.
  bool list_violated(const Vector& x, const FlatDirections<M>& flat) {
    Vector values(qp_.m() + qp_.n());
    values << qp_.G * x, x;
    const double size = std::max(norm(x), std::numeric_limits<double>::min());
    const std::size_t before = rows_.size();
    for (Index row = 0; row < values.size(); ++row) {
      const double member = row < qp_.m() ? S_.z[row] : S_.box[row - qp_.m()];
      const bool beyond = values[row] > upper(row) + slack(size, upper(row)) ||
                          values[row] < lower(row) - slack(size, lower(row));
      if (member != 0 || !beyond || is_listed_[at(row)]) continue;
      is_listed_[at(row)] = true;
      rows_.push_back(row);
    }
    if (rows_.size() == before) return false;
    project(flat, before);
    return true;
  }

  /// Pi C' of the rows from `first` on.
  void project(const FlatDirections<M>& flat, std::size_t first) {
    const auto count = static_cast<Index>(rows_.size());
    const auto known = static_cast<Index>(first);
    DenseMatrix multipliers_z = DenseMatrix::Zero(qp_.m(), count - known);
    DenseMatrix rows = DenseMatrix::Zero(qp_.n(), count - known);
    for (Index c = known; c < count; ++c) {
      const Index row = rows_[at(c)];
      if (row < qp_.m())
        multipliers_z(row, c - known) = 1;
      else
        rows(row - qp_.m(), c - known) = 1;
    }
    add_transposed_product(1, qp_.G, multipliers_z, rows);
    rows_of_C_.conservativeResize(qp_.n(), count);
    moved_.conservativeResize(qp_.n(), count);
    rows_of_C_.rightCols(count - known) = rows;
    const DenseMatrix part = flat.part(rows);
    moved_.rightCols(count - known) = part + flat.part(rows - part);
  }

  [[nodiscard]] bool search(const Vector& x) {
    const auto k = static_cast<Index>(rows_.size());
    const DenseMatrix product = rows_of_C_.transpose() * moved_;
    const DenseMatrix gram = 0.5 * (product + product.transpose());
    const Vector t = rows_of_C_.transpose() * x;
    const Vector lengths = gram.diagonal().cwiseMax(0).cwiseSqrt();
    Vector low(k);
    Vector high(k);
    Vector bottom(k);
    Vector ceiling(k);
    for (Index i = 0; i < k; ++i) {
      low[i] = lower(rows_[at(i)]);
      high[i] = upper(rows_[at(i)]);
      bottom[i] = low[i] - 0.1 * slack(norm(x), low[i]);
      ceiling[i] = high[i] + 0.1 * slack(norm(x), high[i]);
    }
    const DualProgram program{.k = k,
                              .M = gram.data(),
                              .stride = k,
                              .t = t.data(),
                              .lower = low.data(),
                              .upper = high.data(),
                              .bottom = bottom.data(),
                              .ceiling = ceiling.data(),
                              .lengths = lengths.data(),
                              .size = x.norm()};
    state_ = {};
    state_.side.assign(at(k), 0);
    GoldfarbIdnani(k, qp_.n(), dependent_tol).run(program, state_);
    return state_.outcome == DualState::Outcome::Solved;
  }

  const QuadraticProgram<M>& qp_;
  const ActiveSet& S_;
  std::vector<bool> is_listed_;
  std::vector<Index> rows_{};          // of G, then variables
  DenseMatrix rows_of_C_{}, moved_{};  // one column each: C' and Pi C'
  DualState state_{};
};

/// No negative multipliers, not even by rounding; rows that only hold x back have none.
template <Matrix M>
void clean(const QuadraticProgram<M>& qp, const ActiveSet& S, Point& v) {
  v.z = v.z.cwiseMax(0).cwiseProduct(S.z);
  for (Index j = 0; j < qp.n(); ++j)
    if (qp.lb[j] != qp.ub[j] && !(S.box[j] * v.z_box[j] > 0)) v.z_box[j] = 0;
}

}  // namespace

template <Matrix M>
std::optional<Finished<M>> least_norm(const std::shared_ptr<const ScaledProgram<M>>& program,
                                      const Finished<M>& found, double gradient_tolerance,
                                      AugmentedSystem<M>& system) {
  const auto& qp = program->qp;
  Vector x = found.point.x;
  ActiveSet T = found.set;
  const FlatDirections<M> flat(qp, found.set, system);
  for (int pass = 0; pass < 2; ++pass) x -= flat.part(x);
  if (!x.allFinite() || !HoldingRows<M>(qp, found.set).find(flat, x, T)) return {};
  if (!factorise_on(qp, T, system)) return {};
  PointBlock t{.x = x, .y = found.point.y, .z = found.point.z, .z_box = found.point.z_box};
  alternating_rounds(qp, system, T, data_of(qp, T), t, to_rounding);
  auto linearisation = std::make_shared<RoundsLinearisation<M>>(
      program, std::move(system), T, derivative_limits(gradient_tolerance), KnownRows{.several_x = true});
  linearisation->remove_flat_part(t.x);
  if (!t.x.allFinite()) return {};
  Point point{.x = t.x, .y = t.y, .z = t.z, .z_box = t.z_box};
  clean(qp, found.set, point);
  linearisation->keep_turn(point.x);
  return Finished<M>{std::move(point), std::move(linearisation), std::move(T)};
}

template std::optional<Finished<SparseMatrix>> least_norm(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Finished<SparseMatrix>&, double,
    AugmentedSystem<SparseMatrix>&);

}  // namespace altdiff::detail
