#include "derivatives/flat_descent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double falls = 1e-13;  // slope of the objective, relative to what the gradient is the sum of
constexpr double along = 1e-9;   // of a row, relative to its length: rounding in a step along it
constexpr double infinite = std::numeric_limits<double>::infinity();

/// The first row that a step from x along d meets.
struct Blocking {
  double step = infinite;
  Index place = -1;  // of G, then of the variables
  double side = 1;
};

Blocking first_met(const QuadraticProgram<SparseMatrix>& qp, const ActiveSet& S, const Vector& x,
                   const Vector& d) {
  const Vector slack = qp.h - qp.G * x;
  const Vector rate = qp.G * d;
  const double zero = along * norm(d);
  Blocking first;
  const auto meet = [&](Index place, double side, double distance, double speed) {
    if (speed > zero && std::max(0.0, distance) / speed < first.step)
      first = {.step = std::max(0.0, distance) / speed, .place = place, .side = side};
  };
  for (Index i = 0; i < qp.m(); ++i)
    if (S.z[i] == 0) meet(i, 1, slack[i], rate[i]);
  for (Index j = 0; j < qp.n(); ++j) {
    if (S.box[j] != 0) continue;
    meet(qp.m() + j, 1, qp.ub[j] - x[j], d[j]);
    meet(qp.m() + j, -1, x[j] - qp.lb[j], -d[j]);
  }
  return first;
}

}  // namespace

void descend_flat_directions(const QuadraticProgram<SparseMatrix>& qp, const RowLengths& lengths, Point& v,
                             ActiveSet& S) {
  Point point = v;
  ActiveSet set = S;
  bool moved = false;
  for (Index step = 0; step <= qp.n(); ++step) {
    const NullSpace system(qp, set, lengths);
    const Vector gradient = qp.P * point.x + qp.q;
    const Vector d = -system.flat_part(gradient);
    if (system.regular() || norm(d) <= falls * sizes_at(qp, point).gradient) {
      if (!moved) return;
      system.polish(qp, point);
      if (mend(qp, point, set) > 0) return;
      v = std::move(point);
      S = std::move(set);
      return;
    }
    const Blocking first = first_met(qp, set, point.x, d);
    if (first.place < 0) return;
    point.x += first.step * d;
    (first.place < qp.m() ? set.z[first.place] : set.box[first.place - qp.m()]) = first.side;
    moved = true;
  }
}

}  // namespace altdiff::detail
