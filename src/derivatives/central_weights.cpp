#include "derivatives/central_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "derivatives/on_set.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_steps = 60;
constexpr double to_the_boundary = 0.99;
constexpr double last_step = 1e-7;   // relative; Newton squares it
constexpr double solved = 1e-10;     // (R4) of a step
constexpr double roughly = 1e-6;     // the same, of one that is not among the last
constexpr double converging = 0.1;   // relative length of the step before them
constexpr double as_strict = 1e9;    // a weight that is as good as infinite
constexpr double as_nothing = 1e-6;  // where P is flat, sigma alone leaves weights up to about 1e-7

/// Slacks s and multipliers t of the weak rows, over all rows of G and all bounds; ones elsewhere.
struct Pairs {
  Vector s_z, t_z, s_box, t_box;

  void forget_others(const ActiveSet& W) {
    for (Vector* part : {&s_z, &t_z}) *part = (W.z.array() != 0).select(*part, 1.0);
    for (Vector* part : {&s_box, &t_box}) *part = (W.box.array() != 0).select(*part, 1.0);
  }
  [[nodiscard]] Vector weights_z() const { return t_z.cwiseQuotient(s_z); }
  [[nodiscard]] Vector weights_box() const { return t_box.cwiseQuotient(s_box); }
};

/// S with the rows of W, which give way by s/t.
ActiveSet joined(const ActiveSet& S, const ActiveSet& W, const Pairs& v, Index p) {
  return {.z = S.z + W.z,
          .box = S.box + W.box,
          .give = {.y = Vector::Zero(p),
                   .z = W.z.cwiseProduct(v.s_z.cwiseQuotient(v.t_z)),
                   .box = W.box_mask().cwiseProduct(v.s_box.cwiseQuotient(v.t_box))}};
}

/// The largest part of the step from v to `next`, at most 1, that keeps v positive.
double part_inside(const Vector& v, const Vector& next) {
  double part = 1;
  for (Index i = 0; i < v.size(); ++i)
    if (next[i] <= 0) part = std::min(part, to_the_boundary * v[i] / (v[i] - next[i]));
  return part;
}

double relative_step(const Vector& v, const Vector& next) { return norm((next - v).cwiseQuotient(v)); }

/// One step of Newton's method on P d + A'y + G_S'z + G_W't = 0, A d = 0, G_S d = 0, G_W d + s = 0,
/// s o t = 1. With the pairs eliminated it is (A2) on rows that give way by s/t, for the limits -(s + 1/t).
/// Returns the relative length of the step, or infinity if it was cut; negative: a factorisation failed.
template <Matrix M>
double newton_step(const QuadraticProgram<M>& qp, const ActiveSet& S, const ActiveSet& W, double accuracy,
                   Pairs& v, AugmentedSystem<M>& system) {
  const ActiveSet set = joined(S, W, v, qp.p());
  PointBlock limits = zeros(qp, 1);
  limits.z = W.z.cwiseProduct(v.s_z + v.t_z.cwiseInverse());
  limits.z_box = W.box.cwiseProduct(v.s_box + v.t_box.cwiseInverse());
  PointBlock d = zeros(qp, 1);
  if (!solve_on(qp, set, limits, accuracy, system, d)) return -1;  // (W4)
  const auto of_W = [](const Vector& mask, const Vector& values) -> Vector {
    return (mask.array() != 0).select(values, Vector::Ones(values.size()));
  };
  const Pairs next{.s_z = of_W(W.z, -(qp.G * d.x)),
                   .t_z = of_W(W.z, d.z),
                   .s_box = of_W(W.box, -W.box.cwiseProduct(d.x)),
                   .t_box = of_W(W.box, W.box.cwiseProduct(d.z_box))};
  const double part = std::min({part_inside(v.s_z, next.s_z), part_inside(v.t_z, next.t_z),
                                part_inside(v.s_box, next.s_box), part_inside(v.t_box, next.t_box)});
  const double length = std::max({relative_step(v.s_z, next.s_z), relative_step(v.t_z, next.t_z),
                                  relative_step(v.s_box, next.s_box), relative_step(v.t_box, next.t_box)});
  v.s_z += part * (next.s_z - v.s_z);
  v.t_z += part * (next.t_z - v.t_z);
  v.s_box += part * (next.s_box - v.s_box);
  v.t_box += part * (next.t_box - v.t_box);
  return part < 1 ? std::numeric_limits<double>::infinity() : length;
}

/// Rows without a finite, positive weight leave W: to S, or for good. Returns how many.
int sort_out(const Vector& weights, Vector& W, Vector& S) {
  int moved = 0;
  for (Index i = 0; i < W.size(); ++i) {
    if (W[i] == 0 || (weights[i] < as_strict && weights[i] > as_nothing)) continue;
    if (weights[i] >= as_strict) S[i] = W[i];
    W[i] = 0;
    ++moved;
  }
  return moved;
}

}  // namespace

template <Matrix M>
bool add_central_weights(const QuadraticProgram<M>& qp, ActiveSet W, ActiveSet& S,
                         AugmentedSystem<M>& system) {
  Pairs v{.s_z = Vector::Ones(qp.m()),
          .t_z = Vector::Ones(qp.m()),
          .s_box = Vector::Ones(qp.n()),
          .t_box = Vector::Ones(qp.n())};
  double length = std::numeric_limits<double>::infinity();
  for (int step = 0; step < max_steps && !W.empty(); ++step) {
    length = newton_step(qp, S, W, length < converging ? solved : roughly, v, system);
    if (length < 0) return false;
    const int moved = sort_out(v.weights_z(), W.z, S.z) + sort_out(v.weights_box(), W.box, S.box);
    if (moved > 0) {  // the others go on from where they are: it is a step of another problem
      v.forget_others(W);
      length = std::numeric_limits<double>::infinity();
      step = 0;
    } else if (length < last_step) {
      break;
    }
  }
  if (!W.empty()) S = joined(S, W, v, qp.p());
  return true;
}

template bool add_central_weights(const QuadraticProgram<SparseMatrix>&, ActiveSet, ActiveSet&,
                                  SparseSystem&);

}  // namespace altdiff::detail
