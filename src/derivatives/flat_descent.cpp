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

std::shared_ptr<const NullSpace> descend_flat_directions(const QuadraticProgram<SparseMatrix>& qp,
                                                         const RowLengths& lengths, Point& v, ActiveSet& S) {
  auto first = std::make_shared<const NullSpace>(qp, S, lengths);
  auto system = first;
  Point point = v;
  ActiveSet set = S;
  for (Index step = 0; step <= qp.n(); ++step) {
    const Vector gradient = qp.P * point.x + qp.q;
    const Vector d = -system->flat_part(gradient);
    if (system->regular() || norm(d) <= falls * sizes_at(qp, point).gradient) {
      if (step == 0) return first;
      system->polish(qp, point);
      if (mend(qp, point, set) > 0) return first;
      v = std::move(point);
      S = std::move(set);
      return system;
    }
    const Blocking met = first_met(qp, set, point.x, d);
    if (met.place < 0) return first;
    point.x += met.step * d;
    (met.place < qp.m() ? set.z[met.place] : set.box[met.place - qp.m()]) = met.side;
    system = std::make_shared<const NullSpace>(qp, set, lengths);
  }
  return first;
}

}  // namespace altdiff::detail
