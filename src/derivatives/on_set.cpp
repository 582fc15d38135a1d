#include "derivatives/on_set.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace altdiff::detail {

namespace {

constexpr double inconsistent = 1e-6;     // a relative residual that rounds cannot get below: no solution
constexpr int few_rounds = 5;             // more, and the residual says little about the error
constexpr double at_rounding = 1e-9;      // a relative residual that large multipliers may leave
constexpr double met_by_regular = 1e-13;  // a residual after which one round is enough
constexpr int rounds_of_regular = 8;      // that bring it there, the first of which may enlarge it
constexpr double good_factor = 1e-12;     // (R4) that no other penalties need improve
constexpr RoundLimits to_machine_precision{.tolerance = 1e-15, .max_rounds = 12, .patience = 2};
constexpr RoundLimits quickly{.tolerance = 1e-15, .max_rounds = few_rounds, .patience = 2};

struct Attempt : RoundWeights {
  bool more = false;  // of what the attempt before it changed: only worth while if that one helped
};
constexpr double helped = 0.5;   // at most what is left of the residual
constexpr double at_all = 0.99;  // the same, of rows that are not simply dependent
constexpr double as_good = 2;    // at most, relative to another residual

/// Large penalties on the active rows make a round contract fast; how large is limited by what the
/// factorisation survives, and the condensed matrix squares the condition. Tried in this order: sigma small
/// enough for most; smaller where P is so ill conditioned that sigma drowns it; larger where rounding has
/// made P indefinite; a larger penalty where rows are nearly dependent. Bounds that hold their variables come
/// first, for they let nothing through; but where rows and bounds contradict each other, as those of an
/// engine's first guess may, bounds with a penalty give way, and multipliers tell which of them is wrong.
template <Matrix M>
struct RoundPenalty;
template <>
struct RoundPenalty<DenseMatrix> {
  static constexpr std::array attempts{Attempt{{.sigma = 1e-7, .row = 1e6, .hold = true}},
                                       Attempt{{.sigma = 1e-7, .row = 1e6}},
                                       Attempt{{.sigma = 1e-10, .row = 1e6}},
                                       Attempt{{.sigma = 1e-12, .row = 1e6}, true},
                                       Attempt{{.sigma = 1e-6, .row = 1e6}},
                                       Attempt{{.sigma = 1e-5, .row = 1e6}, true},
                                       Attempt{{.sigma = 1e-7, .row = 1e8}}};
};
template <>
struct RoundPenalty<SparseMatrix> {
  static constexpr std::array attempts{Attempt{{.sigma = 1e-8, .row = 1e8, .hold = true}},
                                       Attempt{{.sigma = 1e-8, .row = 1e8}},
                                       Attempt{{.sigma = 1e-10, .row = 1e8}},
                                       Attempt{{.sigma = 1e-12, .row = 1e8}, true},
                                       Attempt{{.sigma = 1e-6, .row = 1e8}},
                                       Attempt{{.sigma = 1e-5, .row = 1e8}, true},
                                       Attempt{{.sigma = 1e-8, .row = 1e12}},
                                       Attempt{{.sigma = 1e-8, .row = 1e16}, true}};
};

/// `largest`, or the weight of a row that gives way.
Vector penalties_of(const Vector& members, const Vector& give, double largest) {
  Vector R = largest * members;
  if (give.size() > 0) R = R.cwiseMin(give.cwiseMax(1 / largest).cwiseInverse());
  return R;
}

/// Infinite, because a variable at its bound can be taken out of the system, or the bound's weight.
Vector penalties_of_bounds(const ActiveSet& S, double largest) {
  Vector R = penalties_of(S.box_mask(), S.give.box, largest);
  for (Index j = 0; j < R.size(); ++j)
    if (S.holds(j)) R[j] = std::numeric_limits<double>::infinity();
  return R;
}

Penalties penalties_with(const ActiveSet& S, Index p, const RoundWeights& attempt) {
  return {.sigma = attempt.sigma,
          .A = penalties_of(Vector::Ones(p), S.give.y, attempt.row),
          .G = penalties_of(S.z, S.give.z, attempt.row),
          .box = attempt.hold ? penalties_of_bounds(S, attempt.row)
                              : penalties_of(S.box_mask(), S.give.box, attempt.row)};
}

template <Matrix M>
RoundReport rounds_from_zero(const QuadraticProgram<M>& qp, const ActiveSet& S,
                             const AugmentedSystem<M>& system, const PointBlock& right_side,
                             RoundLimits limits) {
  limits.tolerance = std::min(limits.tolerance, inconsistent);
  PointBlock t = zeros(qp, 1);
  return alternating_rounds(qp, system, S, right_side, t, limits);
}

}  // namespace

template <Matrix M>
Penalties penalties_on(const ActiveSet& S, Index p, double sigma) {
  return penalties_with(S, p, RoundWeights{.sigma = sigma, .row = RoundPenalty<M>::attempts[0].row});
}

template <Matrix M>
Penalties penalties_on(const ActiveSet& S, Index p, const RoundWeights& weights) {
  return penalties_with(S, p, weights);
}

template <Matrix M>
PointBlock data_of(const QuadraticProgram<M>& qp, const ActiveSet& S) {
  Vector bound = Vector::Zero(qp.n());
  for (Index j = 0; j < qp.n(); ++j)
    if (S.box[j] != 0) bound[j] = S.box[j] > 0 ? qp.ub[j] : qp.lb[j];
  return {.x = qp.q, .y = -qp.b, .z = -qp.h, .z_box = -bound};
}

namespace {

template <Matrix M>
bool solve_within(const QuadraticProgram<M>& qp, const ActiveSet& S, const PointBlock& right_side,
                  double good_enough, const RoundLimits& limits, AugmentedSystem<M>& system, PointBlock& t) {
  const PointBlock start = t;
  double best = std::numeric_limits<double>::infinity();
  std::optional<Attempt> closest;
  const auto error_of = [&](const Attempt& attempt) {
    PointBlock trial = start;
    if (!system.factorise(qp.P, qp.A, qp.G, penalties_with(S, qp.p(), attempt))) return best;
    const double error = alternating_rounds(qp, system, S, right_side, trial, limits).residual;
    const bool gives_way = closest && closest->hold && !attempt.hold;  // and tells more by its multipliers
    if (error < (gives_way ? as_good * best : best)) {
      best = error;
      closest = attempt;
      t = std::move(trial);
    }
    return error;
  };
  const bool held = S.has_bounds();
  bool better = true;
  for (const Attempt& attempt : RoundPenalty<M>::attempts) {
    if ((attempt.hold && !held) || (attempt.more && !better)) continue;
    const double before = best;
    const double error = error_of(attempt);
    if (error <= good_enough) return true;
    better = error < helped * before;
  }
  return closest && system.factorise(qp.P, qp.A, qp.G, penalties_with(S, qp.p(), *closest));
}

}  // namespace

template <Matrix M>
bool solve_on(const QuadraticProgram<M>& qp, const ActiveSet& S, const PointBlock& right_side,
              double good_enough, AugmentedSystem<M>& system, PointBlock& t) {
  return solve_within(qp, S, right_side, good_enough, to_machine_precision, system, t);
}

template <Matrix M>
PointBlock solvable_right_side(const QuadraticProgram<M>& qp, const ActiveSet& S) {
  const DenseMatrix numbers = generic_block(std::max({qp.n(), qp.p(), qp.m()}), 4);
  return right_side_of(qp, S,
                       {.x = numbers.col(0).head(qp.n()),
                        .y = numbers.col(1).head(qp.p()),
                        .z = numbers.col(2).head(qp.m()),
                        .z_box = numbers.col(3).head(qp.n())});
}

template <Matrix M>
bool factorise_on(const QuadraticProgram<M>& qp, const ActiveSet& S, AugmentedSystem<M>& system) {
  PointBlock t = zeros(qp, 1);
  return solve_within(qp, S, solvable_right_side(qp, S), good_factor, quickly, system, t);
}

template <Matrix M>
PointBlock generic_limits(const QuadraticProgram<M>& qp, const ActiveSet& S) {
  PointBlock right_side = zeros(qp, 1);
  const DenseMatrix numbers = generic_block(std::max({qp.n(), qp.p(), qp.m()}), 3);
  right_side.y = numbers.col(0).head(qp.p());
  right_side.z = numbers.col(1).head(qp.m());
  right_side.z_box = numbers.col(2).head(qp.n());
  if (S.soft()) {
    right_side.z = (S.give.z.array() > 0).select(Vector::Zero(qp.m()), right_side.z);
    right_side.z_box = (S.give.box.array() > 0).select(Vector::Zero(qp.n()), right_side.z_box);
  }
  return right_side;
}

template <Matrix M>
bool independent_rows(const QuadraticProgram<M>& qp, const ActiveSet& S, const AugmentedSystem<M>& system,
                      const RoundLimits& limits) {
  return rounds_from_zero(qp, S, system, generic_limits(qp, S), limits).residual <= inconsistent;  // (A5)
}

template <Matrix M>
Rows rows_with_any(const QuadraticProgram<M>& qp, const ActiveSet& S, const RoundLimits& limits,
                   AugmentedSystem<M>& system) {
  const PointBlock right_side = generic_limits(qp, S);
  const auto quick = [&](const RoundReport& report) {
    return report.residual <= inconsistent && report.enough <= few_rounds;
  };
  RoundLimits up_to = limits;
  up_to.max_rounds = few_rounds + 1;
  PointBlock t = zeros(qp, 1);
  const RoundReport first = alternating_rounds(qp, system, S, right_side, t, up_to);
  if (quick(first) || first.residual <= at_rounding) return Rows::Independent;
  up_to = {.tolerance = inconsistent, .max_rounds = limits.max_rounds, .patience = limits.patience};
  const bool slow = first.enough > few_rounds && first.residual > inconsistent;
  const double left =
      slow ? alternating_rounds(qp, system, S, right_side, t, up_to).residual : first.residual;
  bool better = false;
  for (const Attempt& attempt : RoundPenalty<M>::attempts) {
    if (attempt.row <= RoundPenalty<M>::attempts[0].row || (attempt.more && !better)) continue;
    if (!system.factorise(qp.P, qp.A, qp.G, penalties_with(S, qp.p(), attempt))) continue;
    const RoundReport report = rounds_from_zero(qp, S, system, right_side, limits);
    if (quick(report)) return Rows::NearlyDependent;
    better = report.residual < at_all * left;
  }
  const bool solvable = left <= inconsistent && factorise_on(qp, S, system);
  return solvable ? Rows::NearlyDependent : Rows::Dependent;
}

template <Matrix M>
bool unique_x(const QuadraticProgram<M>& qp, const ActiveSet& S, const AugmentedSystem<M>& system,
              const RoundLimits& limits) {
  PointBlock right_side = zeros(qp, 1);
  right_side.x = generic_block(qp.n(), 1);
  RoundLimits until_met = limits;
  until_met.tolerance = inconsistent;
  PointBlock t = zeros(qp, 1);
  return alternating_rounds(qp, system, S, right_side, t, until_met).residual <= inconsistent;  // (A4)
}

template <Matrix M>
int rounds_if_regular(const QuadraticProgram<M>& qp, const ActiveSet& S, const AugmentedSystem<M>& system,
                      const RoundLimits& limits) {
  if (S.soft()) return 0;
  PointBlock right_side = generic_limits(qp, S);
  right_side.x = generic_block(qp.n(), 1);
  PointBlock t = zeros(qp, 1);
  RoundLimits to_rounding = limits;
  to_rounding.tolerance = std::max(limits.tolerance, met_by_regular);
  to_rounding.max_rounds = rounds_of_regular + 1;
  const RoundReport report = alternating_rounds(qp, system, S, right_side, t, to_rounding);
  const bool clearly = report.residual <= at_rounding && report.enough <= rounds_of_regular;
  return clearly ? std::max(1, report.enough) : 0;
}

DenseMatrix generic_block(Index rows, Index columns) {
  DenseMatrix v(rows, columns);
  std::uint64_t state = 0x9E3779B97F4A7C15;  // xorshift: quick, and the same numbers in every call
  for (double& entry : v.reshaped()) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    entry = static_cast<double>(state >> 11U) * 0x1p-52 - 1;
  }
  return v;
}

template Penalties penalties_on<DenseMatrix>(const ActiveSet&, Index, double);
template Penalties penalties_on<SparseMatrix>(const ActiveSet&, Index, double);
template Penalties penalties_on<DenseMatrix>(const ActiveSet&, Index, const RoundWeights&);
template Penalties penalties_on<SparseMatrix>(const ActiveSet&, Index, const RoundWeights&);
template PointBlock data_of(const QuadraticProgram<DenseMatrix>&, const ActiveSet&);
template PointBlock data_of(const QuadraticProgram<SparseMatrix>&, const ActiveSet&);
template bool solve_on(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, const PointBlock&, double,
                       DenseSystem&, PointBlock&);
template bool solve_on(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, const PointBlock&, double,
                       SparseSystem&, PointBlock&);
template bool factorise_on(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, DenseSystem&);
template bool factorise_on(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, SparseSystem&);
template PointBlock generic_limits(const QuadraticProgram<DenseMatrix>&, const ActiveSet&);
template PointBlock generic_limits(const QuadraticProgram<SparseMatrix>&, const ActiveSet&);
template PointBlock solvable_right_side(const QuadraticProgram<DenseMatrix>&, const ActiveSet&);
template PointBlock solvable_right_side(const QuadraticProgram<SparseMatrix>&, const ActiveSet&);
template bool independent_rows(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, const DenseSystem&,
                               const RoundLimits&);
template bool independent_rows(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, const SparseSystem&,
                               const RoundLimits&);
template Rows rows_with_any(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, const RoundLimits&,
                            DenseSystem&);
template Rows rows_with_any(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, const RoundLimits&,
                            SparseSystem&);
template bool unique_x(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, const DenseSystem&,
                       const RoundLimits&);
template bool unique_x(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, const SparseSystem&,
                       const RoundLimits&);
template int rounds_if_regular(const QuadraticProgram<DenseMatrix>&, const ActiveSet&, const DenseSystem&,
                               const RoundLimits&);
template int rounds_if_regular(const QuadraticProgram<SparseMatrix>&, const ActiveSet&, const SparseSystem&,
                               const RoundLimits&);

}  // namespace altdiff::detail
