#include "derivatives/least_norm.hpp"

#include <algorithm>

#include "derivatives/on_set.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_set_changes = 60;
constexpr double sign_tol = 1e-11;      // of a violation, relative to x, and of a multiplier, to the largest
constexpr double enters_share = 0.5;    // of the worst violation, that lets a row enter with it
constexpr RoundLimits to_rounding{.tolerance = 1e-15, .max_rounds = 6, .patience = 2};

/// The search for the rows that hold the least x back: those that it violates enter, those that pull it out
/// leave.
template <Matrix M>
class LeastNorm {
 public:
  LeastNorm(const QuadraticProgram<M>& qp, const ActiveSet& S) : qp_(qp), S_(S), T_(S) {}

  [[nodiscard]] const ActiveSet& set() const { return T_; }

  /// How many rows changed, at the least x on the present set, with its multipliers of (L1).
  int change(const Vector& x, const PointBlock& multipliers) {
    const int left = leave(multipliers);
    return left > 0 ? left : enter(x);
  }

 private:
  int leave(const PointBlock& multipliers) {
    const double zero = sign_tol * std::max(norm(multipliers.z), norm(multipliers.z_box));
    int changes = 0;
    const auto drop = [&](double& member) {
      member = 0;
      ++changes;
    };
    for (Index i = 0; i < qp_.m(); ++i)
      if (T_.z[i] != S_.z[i] && multipliers.z(i, 0) < -zero) drop(T_.z[i]);
    for (Index j = 0; j < qp_.n(); ++j)
      if (T_.box[j] != S_.box[j] && T_.box[j] * multipliers.z_box(j, 0) < -zero) drop(T_.box[j]);
    return changes;
  }

  int enter(const Vector& x) {
    const Vector beyond = qp_.G * x - qp_.h;
    const double zero = sign_tol * std::max(1.0, norm(x));
    double worst = zero;
    const auto look = [&](double violation, bool member) {
      if (!member) worst = std::max(worst, violation);
    };
    for (Index i = 0; i < qp_.m(); ++i) look(beyond[i], T_.z[i] != 0);
    for (Index j = 0; j < qp_.n(); ++j) look(std::max(x[j] - qp_.ub[j], qp_.lb[j] - x[j]), T_.box[j] != 0);
    int changes = 0;
    const auto take = [&](double violation, double& member, double side) {
      if (member != 0 || !(violation > zero) || violation < enters_share * worst) return;
      member = side;
      ++changes;
    };
    for (Index i = 0; i < qp_.m(); ++i) take(beyond[i], T_.z[i], 1);
    for (Index j = 0; j < qp_.n(); ++j) {
      take(x[j] - qp_.ub[j], T_.box[j], 1);
      take(qp_.lb[j] - x[j], T_.box[j], -1);
    }
    return changes;
  }

  const QuadraticProgram<M>& qp_;
  const ActiveSet& S_;
  ActiveSet T_;
};

/// No negative multipliers, not even by rounding.
template <Matrix M>
void clean(const QuadraticProgram<M>& qp, const ActiveSet& T, Point& v) {
  v.z = v.z.cwiseMax(0);
  for (Index j = 0; j < qp.n(); ++j)
    if (qp.lb[j] != qp.ub[j] && T.box[j] * v.z_box[j] < 0) v.z_box[j] = 0;
}

}  // namespace

template <Matrix M>
std::optional<Finished<M>> least_norm(const std::shared_ptr<const ScaledProgram<M>>& program,
                                      const Finished<M>& found, double gradient_tolerance,
                                      AugmentedSystem<M>& system) {
  const auto& qp = program->qp;
  LeastNorm<M> search(qp, found.set);
  PointBlock t{.x = found.point.x, .y = found.point.y, .z = found.point.z, .z_box = found.point.z_box};
  for (int change = 0; change < max_set_changes; ++change) {
    const ActiveSet& T = search.set();
    if (!factorise_on(qp, T, system)) return {};
    alternating_rounds(qp, system, T, data_of(qp, T), t, to_rounding);
    auto linearisation =
        std::make_shared<RoundsLinearisation<M>>(program, std::move(system), T,
                                                 derivative_limits(gradient_tolerance),
                                                 KnownRows{.several_x = true});
    DenseMatrix x = t.x;
    linearisation->remove_flat_part(x);
    if (!x.allFinite()) return {};
    PointBlock right_side = zeros(qp, 1);
    right_side.x = x;
    if (search.change(x, linearisation->solve_scaled(right_side)) == 0) {
      Point point{.x = x, .y = t.y, .z = t.z, .z_box = t.z_box};
      clean(qp, T, point);
      linearisation->keep_turn(point.x);
      return Finished<M>{std::move(point), std::move(linearisation), T};
    }
    t.x = x;
    system = linearisation->release_system();
  }
  return {};
}

template std::optional<Finished<DenseMatrix>> least_norm(
    const std::shared_ptr<const ScaledProgram<DenseMatrix>>&, const Finished<DenseMatrix>&, double,
    AugmentedSystem<DenseMatrix>&);
template std::optional<Finished<SparseMatrix>> least_norm(
    const std::shared_ptr<const ScaledProgram<SparseMatrix>>&, const Finished<SparseMatrix>&, double,
    AugmentedSystem<SparseMatrix>&);

}  // namespace altdiff::detail
