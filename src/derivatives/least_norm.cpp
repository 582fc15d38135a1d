#include "derivatives/least_norm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "derivatives/least_by_factors.hpp"
#include "derivatives/least_on_face.hpp"
#include "derivatives/null_space.hpp"
#include "derivatives/on_set.hpp"
#include "engines/active_set/goldfarb_idnani.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_growths = 100;         // of the list of rows that may hold x back
constexpr std::size_t max_listed = 300;  // rows; with more, changing the set row by row takes too long
constexpr int refinements = 2;
constexpr int most_passes = 4;                 // on the way back to the least x
constexpr double nothing_left = 1e-13;         // of x in flat directions, relative
constexpr double costs_digits = 1e-2;          // to take out at once
constexpr double held_tol = 1e-9;              // of a multiplier of (L1), relative to the largest
constexpr double wrong_sign_tol = 1e-6;        // the same, of the set that was found
constexpr double violated_tol = 1e-12;         // relative to x and to the limit
constexpr double roughly_violated_tol = 1e-6;  // the same, before x has all its digits
constexpr double well_posed = 1e-12;           // error of a known x, for another engine
constexpr double dependent_tol = 2e-14;        // see GoldfarbIdnani
constexpr double infinite = std::numeric_limits<double>::infinity();

/// (L1) as (AS3). With Pi the projection on the flat directions, rows C that may hold x back have the values
/// v = C x_1 - C Pi C'lambda, where x_1 is the least x on S alone. Few do: the list of them begins with those
/// that x_1 violates, and grows as long as the least x on it violates others.
template <Matrix M>
class HoldingRows {
 public:
  HoldingRows(const QuadraticProgram<M>& qp, const ActiveSet& S)
      : qp_(qp), S_(S), is_listed_(at(qp.m() + qp.n())) {}

  /// The least x and the set T that it is on, from the least x on S. False if no such set was found. To all
  /// digits only once the list is as long as a look at some of them makes it.
  template <class Flat>
  [[nodiscard]] bool find(const Flat& flat, Point& solution, ActiveSet& T) {
    Vector& x = solution.x;
    const Vector first = x;
    bool exact = true;
    for (int growth = 0; growth < max_growths; ++growth) {
      if (list_violated(x, exact ? violated_tol : roughly_violated_tol)) {
        if (rows_.size() > max_listed) return false;
        project(flat);
        if (!search(first)) return false;
        x = first;
        for (Index s = 0; s < state_.count(); ++s) x -= state_.lambda[at(s)] * moved_.col(state_.row(s));
        exact = false;
      } else {
        T = set_found();
        if (exact) return true;
        x = first;
        push(flat, state_.lambda, x);
        refine(flat, x);
        flat.polish(solution);
        refine(flat, x);
        exact = true;
      }
    }
    return false;
  }

 private:
  /// x - Pi C'lambda, to all digits.
  template <class Flat>
  void push(const Flat& flat, const std::vector<double>& lambda, Vector& x) const {
    Vector pull = Vector::Zero(x.size());
    for (Index s = 0; s < state_.count(); ++s) pull += lambda[at(s)] * rows_of_C_.col(state_.row(s));
    x -= flat.part(pull);
  }

  [[nodiscard]] ActiveSet set_found() const {
    ActiveSet T = S_;
    for (Index s = 0; s < state_.count(); ++s) {
      const Index i = state_.row(s);
      const Index row = rows_[at(i)];
      (row < qp_.m() ? T.z[row] : T.box[row - qp_.m()]) = state_.side[at(i)];
    }
    return T;
  }

  /// What rounding has left of the distance between the rows that hold x and their limits.
  template <class Flat>
  void refine(const Flat& flat, Vector& x) const {
    std::vector<double> r(state_.rows.size());
    for (int pass = 0; pass < refinements; ++pass) {
      for (Index s = 0; s < state_.count(); ++s) {
        const Index i = state_.row(s);
        const double limit = state_.side[at(i)] > 0 ? upper(rows_[at(i)]) : lower(rows_[at(i)]);
        r[at(s)] = rows_of_C_.col(i).dot(x) - limit;
      }
      state_.solve(r.data());
      push(flat, r, x);
    }
  }

  [[nodiscard]] double lower(Index row) const { return row < qp_.m() ? -infinite : qp_.lb[row - qp_.m()]; }
  [[nodiscard]] double upper(Index row) const { return row < qp_.m() ? qp_.h[row] : qp_.ub[row - qp_.m()]; }
  [[nodiscard]] static double slack(double size, double limit, double tolerance) {
    return tolerance * (size + (std::isfinite(limit) ? std::abs(limit) : 0));
  }

  /// Adds rows to the list; false if there are none.
  bool list_violated(const Vector& x, double tolerance) {
    Vector values(qp_.m() + qp_.n());
    values << qp_.G * x, x;
    const double size = std::max(norm(x), std::numeric_limits<double>::min());
    const std::size_t before = rows_.size();
    for (Index row = 0; row < values.size(); ++row) {
      const double member = row < qp_.m() ? S_.z[row] : S_.box[row - qp_.m()];
      const bool beyond = values[row] > upper(row) + slack(size, upper(row), tolerance) ||
                          values[row] < lower(row) - slack(size, lower(row), tolerance);
      if (member != 0 || !beyond || is_listed_[at(row)]) continue;
      is_listed_[at(row)] = true;
      rows_.push_back(row);
    }
    return rows_.size() > before;
  }

  /// Pi C' of the rows that are new on the list.
  template <class Flat>
  void project(const Flat& flat) {
    const auto count = static_cast<Index>(rows_.size());
    const Index known = moved_.cols();
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
    moved_.rightCols(count - known) = flat.rough_part(rows);
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
      bottom[i] = low[i] - 0.1 * slack(norm(x), low[i], violated_tol);
      ceiling[i] = high[i] + 0.1 * slack(norm(x), high[i], violated_tol);
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
  DenseMatrix rows_of_C_{}, moved_{};  // one column each: C', and Pi C' to some digits
  DualState state_{};
};

/// (L1) as a program of its own, for another engine, and the set of its solution.
template <Matrix M>
bool find_elsewhere(const QuadraticProgram<M>& qp, const Finished<M>& found, const SolveWellPosed& solve,
                    Vector& x, ActiveSet& T) {
  const ActiveSet& S = found.set;
  std::vector<Index> held;
  std::vector<Index> others;
  for (Index i = 0; i < qp.m(); ++i)
    (S.z[i] != 0 && (!S.soft() || S.give.z[i] <= 0) ? held : others).push_back(i);
  std::vector<Index> curved;
  const Vector sizes = row_norms(qp.P);
  for (Index i = 0; i < qp.n(); ++i)
    if (sizes[i] > 0) curved.push_back(i);
  const Vector Px = qp.P * found.point.x;
  const std::vector<M> blocks{qp.A, pick_rows(qp.P, curved), pick_rows(qp.G, held)};
  QuadraticProgram<M> least{.P = M(qp.n(), qp.n()),
                            .q = Vector::Zero(qp.n()),
                            .G = pick_rows(qp.G, others),
                            .h = qp.h(others),
                            .A = stacked(blocks),
                            .b = Vector(qp.p() + std::ssize(curved) + std::ssize(held)),
                            .lb = qp.lb,
                            .ub = qp.ub};
  least.P.setIdentity();
  least.b << qp.b, Px(curved), qp.h(held);
  for (Index j = 0; j < qp.n(); ++j)
    if (S.holds(j)) least.lb[j] = least.ub[j] = S.box[j] > 0 ? qp.ub[j] : qp.lb[j];
  for (const Point& v : solve(least)) {
    const double zero = held_tol * std::max(norm(v.z), norm(v.z_box));
    T = S;
    for (std::size_t i = 0; i < others.size(); ++i)
      if (v.z[static_cast<Index>(i)] > zero) T.z[others[i]] = 1;
    for (Index j = 0; j < qp.n(); ++j)
      if (T.box[j] == 0 && std::abs(v.z_box[j]) > zero) T.box[j] = v.z_box[j] > 0 ? 1 : -1;
    x = v.x;
    return true;
  }
  return false;
}

/// The least x on the set alone. An engine's point may be far out on the face: coming back costs digits.
template <class Flat>
bool come_back(const Flat& flat, Point& point) {
  for (int pass = 0; pass < most_passes; ++pass) {
    const Vector part = flat.rough_part(point.x);
    point.x -= part;
    const double left = norm(part) / std::max(norm(point.x), std::numeric_limits<double>::min());
    if (!(left > nothing_left)) break;
    if (left > costs_digits) flat.polish(point);
  }
  flat.polish(point);
  return point.x.allFinite();
}

/// No negative multipliers, not even by rounding; rows that only hold x back have none.
template <Matrix M>
void clean(const QuadraticProgram<M>& qp, const ActiveSet& S, Point& v) {
  v.z = v.z.cwiseMax(0).cwiseProduct(S.z);
  for (Index j = 0; j < qp.n(); ++j)
    if (qp.lb[j] != qp.ub[j] && !(S.box[j] * v.z_box[j] > 0)) v.z_box[j] = 0;
}

/// Derivatives at the least x. The factor is made when the first is asked for: many solutions are never
/// differentiated, and x itself needs none. Where units are too different for (L2) on T, derivatives are
/// those of `first`, the solution that was found.
template <Matrix M>
class AtLeastNorm final : public Linearisation {
 public:
  AtLeastNorm(std::shared_ptr<const ScaledProgram<M>> program, ActiveSet T, double gradient_tolerance,
              Vector x, std::shared_ptr<const Linearisation> first)
      : program_(std::move(program)),
        T_(std::move(T)),
        gradient_tolerance_(gradient_tolerance),
        x_(std::move(x)),
        made_(std::move(first)) {}

  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const override {
    return made().solve(right_side);
  }
  [[nodiscard]] int rounds() const override { return made().rounds(); }
  [[nodiscard]] bool regular() const override { return false; }
  [[nodiscard]] bool independent() const override { return made().independent(); }
  [[nodiscard]] ActiveSet active() const override { return made().active(); }
  [[nodiscard]] const Point* turn() const override {
    (void)made();
    return turn_ ? &*turn_ : nullptr;
  }
  [[nodiscard]] DenseMatrix flat_part(const DenseMatrix& columns) const override {
    return made().flat_part(columns);
  }

 private:
  const Linearisation& made() const {
    std::call_once(once_, [this] {
      const auto& qp = program_->qp;
      auto map = make_map();
      if (map == nullptr) return;
      made_ = std::move(map);
      const PointBlock u = made_->solve({.x = -x_,
                                         .y = DenseMatrix::Zero(qp.p(), 1),
                                         .z = DenseMatrix::Zero(program_->m_user, 1),
                                         .z_box = DenseMatrix::Zero(qp.n(), 1)});
      turn_ = {.x = u.x, .y = u.y, .z = u.z, .z_box = u.z_box};  // (L3)
    });
    return *made_;
  }

  /// Null where (L2) does not settle.
  [[nodiscard]] std::shared_ptr<const Linearisation> make_map() const {
    const auto& qp = program_->qp;
    if (NullSpace::serves(qp)) return std::make_shared<NullSpaceLinearisation>(program_, T_, true);
    AugmentedSystem<M> system(qp.P, qp.A, qp.G);
    (void)factorise_on(qp, T_, system);
    auto rounds = std::make_shared<RoundsLinearisation<M>>(program_, std::move(system), T_,
                                                           derivative_limits(gradient_tolerance_),
                                                           KnownRows{.several_x = true});
    if (!rounds->usable()) return {};
    return rounds;
  }

  std::shared_ptr<const ScaledProgram<M>> program_;
  ActiveSet T_;
  double gradient_tolerance_;
  Vector x_;
  mutable std::shared_ptr<const Linearisation> made_;  // the first one's, until it is
  mutable std::optional<Point> turn_{};
  mutable std::once_flag once_{};
};

/// Whether the rows that hold the least x back push, and none of them pulls: the multipliers of (L1) are -u.
bool only_push(const Point& u, const ActiveSet& S, const ActiveSet& T) {
  const double zero = wrong_sign_tol * std::max(norm(u.z), norm(u.z_box));
  for (Index i = 0; i < T.z.size(); ++i)
    if (T.z[i] != S.z[i] && u.z[i] > zero) return false;
  for (Index j = 0; j < T.box.size(); ++j)
    if (T.box[j] != S.box[j] && T.box[j] * u.z_box[j] > zero) return false;
  return true;
}

/// The least x and its set T, in the quickest way that works out. `signs_known`: rows of T only push.
bool find_least(const QuadraticProgram<SparseMatrix>& qp, const Finished<SparseMatrix>& found,
                const SolveWellPosed& solve, Point& point, ActiveSet& T, bool& signs_known) {
  if (NullSpace::serves(qp)) {
    const FlatByFactors flat(qp, found.set);
    if (come_back(flat, point) && HoldingRows<SparseMatrix>(qp, found.set).find(flat, point, T)) {
      share_among_touching(qp, flat, found.set, point.x, T);
      return true;
    }
    point = found.point;
    T = found.set;
  }
  const Face face(qp, found);
  LeastOnRows rows(face);
  if (auto quick = least_on_face(face, found.set, rows)) {
    point.x = std::move(quick->x);
    T = std::move(quick->T);
    return true;
  }
  HoldingRows<SparseMatrix> holding(qp, found.set);
  const double error = rows.use(face.rows) ? rows.error_of_known() : infinite;
  if (error <= exact_on_face) {
    point.x = rows.nearest(Vector::Zero(qp.n())).x;
    signs_known = holding.find(rows, point, T);
    if (!signs_known && error > well_posed) return false;
  } else {
    const FlatDirections<SparseMatrix> flat(qp, found.set, SparseSystem(qp.P, qp.A, qp.G));
    if (!flat.usable() || !come_back(flat, point)) return false;
    signs_known = holding.find(flat, point, T);
  }
  return signs_known || find_elsewhere(qp, found, solve, point.x, T);
}

}  // namespace

template <Matrix M>
std::optional<Finished<M>> least_norm(const std::shared_ptr<const ScaledProgram<M>>& program,
                                      const Finished<M>& found, double gradient_tolerance,
                                      const SolveWellPosed& solve) {
  const auto& qp = program->qp;
  Point point = found.point;
  ActiveSet T = found.set;
  bool signs_known = true;
  if (!find_least(qp, found, solve, point, T, signs_known)) return {};
  auto linearisation =
      std::make_shared<AtLeastNorm<M>>(program, T, gradient_tolerance, point.x, found.linearisation);
  if (!signs_known) {
    const Point* turn = linearisation->turn();
    if (turn == nullptr || !only_push(program->from_user(*turn), found.set, T)) return {};
  }
  clean(qp, found.set, point);
  return Finished<M>{
      .point = std::move(point), .linearisation = std::move(linearisation), .set = std::move(T)};
}

template std::optional<Finished<SparseMatrix>> least_norm(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Finished<SparseMatrix>&, double,
    const SolveWellPosed&);

}  // namespace altdiff::detail
