#include "budget/shares.hpp"

#include <cmath>

namespace altdiff::detail {

namespace {

enum class Place { Free, Lower, Upper, TouchingLower, TouchingUpper };

/// Where an entry is, given how far its value lies above both limits.
Place place(double above_lower, double above_upper, double near, bool fixed) {
  if (fixed) return above_upper >= 0 ? Place::Upper : Place::Lower;
  if (std::abs(above_lower) <= near) return Place::TouchingLower;
  if (std::abs(above_upper) <= near) return Place::TouchingUpper;
  if (above_lower < 0) return Place::Lower;
  return above_upper > 0 ? Place::Upper : Place::Free;
}

template <class T>
class Places {
 public:
  Places(const RowOf<T>& row, const BudgetRow& state) : row_(row), state_(state) {
    const double size =
        row.kind == Budget::Softmax
            ? 1
            : std::max(std::abs(state.base + state.level), std::abs(row.total) / static_cast<double>(row.n));
    near_ = touching_distance<T> * size;
  }

  [[nodiscard]] Place of(Index i) const {
    const double l = row_.lower_at(i);
    const double u = row_.upper_at(i);
    const double v = (static_cast<double>(row_.y[i]) - state_.base) - state_.level;
    if (row_.y[i] == -std::numeric_limits<T>::infinity()) return Place::Lower;
    if (row_.kind == Budget::Sparsemax) return place(v - l, v - u, near_, l == u);
    // In logarithms; that of zero is -inf, which no value reaches.
    return place(v - std::log(l), v - std::log(u), near_, l == u);
  }

 private:
  const RowOf<T>& row_;
  const BudgetRow& state_;
  double near_;
};

bool touches(Place place) { return place == Place::TouchingLower || place == Place::TouchingUpper; }

/// t of (B7) for an entry with q.
double central(double q, double beta) { return (q * beta + std::sqrt(q * q * beta * beta + 4)) / 2; }

/// The root beta of (B7), which falls in beta and is smooth. `each` calls its argument with every q.
template <class Each>
double central_beta(const Each& each) {
  double beta = 0;
  for (int k = 0; k < 50; ++k) {
    double value = -beta;
    double slope = -1;
    each([&](double q) {
      const double root = std::sqrt(q * q * beta * beta + 4);
      value += q * (q * beta + root) / 2;
      slope += q * (q + q * q * beta / root) / 2;
    });
    if (!(slope < 0)) break;
    const double step = value / slope;
    beta -= step;
    if (std::abs(step) <= 1e-15 * std::abs(beta)) break;
  }
  return beta;
}

/// Weights of entries that touch a limit without force. (B7)
template <class T>
void share_touching(const RowOf<T>& row, const T* x, const Places<T>& places, double* moving, double* above) {
  const auto weight = [&](Index i) { return row.kind == Budget::Softmax ? static_cast<double>(x[i]) : 1.0; };
  double free = 0;
  double all_weights = 0;
  bool lower = false;
  bool upper = false;
  for (Index i = 0; i < row.n; ++i) {
    const Place at = places.of(i);
    if (at == Place::Free) free += weight(i);
    if (at == Place::Free || touches(at)) all_weights += weight(i);
    lower = lower || at == Place::TouchingLower;
    upper = upper || at == Place::TouchingUpper;
  }
  const auto q_of = [&](Index i, Place at) {
    return (at == Place::TouchingLower ? 1 : -1) * std::sqrt(weight(i) / all_weights);
  };
  // Nothing can move: if the touching entries are all on one side, the limits hold them.
  const bool held = !(free > 0) && lower != upper;
  const double beta = held ? 0 : central_beta([&](const auto& use) {
    for (Index i = 0; i < row.n; ++i)
      if (const Place at = places.of(i); touches(at)) use(q_of(i, at));
  });
  for (Index i = 0; i < row.n; ++i) {
    const Place at = places.of(i);
    if (!touches(at)) continue;
    const double t = central(q_of(i, at), beta);
    moving[i] = held ? 0 : 1 / (1 + t * t);  // (B7)
    above[i] = at == Place::TouchingUpper ? 1 - moving[i] : 0;
  }
}

}  // namespace

template <class T>
void row_shares(const RowOf<T>& row, const BudgetRow& state, const T* x, double* moving, double* above) {
  const Places<T> places(row, state);
  bool any_touches = false;
  for (Index i = 0; i < row.n; ++i) {
    const Place at = places.of(i);
    any_touches = any_touches || touches(at);
    moving[i] = at == Place::Free ? 1 : 0;
    above[i] = at == Place::Upper ? 1 : 0;
  }
  if (any_touches) share_touching(row, x, places, moving, above);
}

template void row_shares(const RowOf<float>&, const BudgetRow&, const float*, double*, double*);
template void row_shares(const RowOf<double>&, const BudgetRow&, const double*, double*, double*);

}  // namespace altdiff::detail
