#include "budget/shares.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

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

/// An entry that touches a limit without force; `q` is negative at an upper limit.
struct Touching {
  Index entry;
  double q;
};

/// The root beta of (B7): what is sought falls in beta, and is smooth.
double central_beta(const std::vector<Touching>& touching) {
  double beta = 0;
  for (int k = 0; k < 50; ++k) {
    double value = -beta;
    double slope = -1;
    for (const auto& [entry, q] : touching) {
      const double root = std::sqrt(q * q * beta * beta + 4);
      value += q * (q * beta + root) / 2;
      slope += q * (q + q * q * beta / root) / 2;
    }
    if (!(slope < 0)) break;
    const double step = value / slope;
    beta -= step;
    if (std::abs(step) <= 1e-15 * std::abs(beta)) break;
  }
  return beta;
}

/// Weights of entries that touch a limit without force, beside free ones of this weight. (B7)
void share_touching(std::vector<Touching>& touching, double free, double* moving, double* above) {
  const auto is_lower = [](const Touching& t) { return t.q > 0; };
  const auto lower = std::ranges::count_if(touching, is_lower);
  const bool one_side = lower == 0 || lower == std::ssize(touching);
  // Nothing can move: if all are on one side, the limits hold them.
  const bool held = !(free > 0) && one_side;
  double weights = free;
  for (const Touching& t : touching) weights += std::abs(t.q);
  for (Touching& t : touching) t.q = std::copysign(std::sqrt(std::abs(t.q) / weights), t.q);
  const double beta = held ? 0 : central_beta(touching);
  for (const auto& [i, q] : touching) {
    const double t = (q * beta + std::sqrt(q * q * beta * beta + 4)) / 2;
    moving[i] = held ? 0 : 1 / (1 + t * t);  // (B7)
    above[i] = q < 0 ? 1 - moving[i] : 0;
  }
}

}  // namespace

template <class T>
void row_shares(const RowOf<T>& row, const BudgetRow& state, const T* x, double* moving, double* above) {
  const Places<T> places(row, state);
  const auto weight = [&](Index i) { return row.kind == Budget::Softmax ? static_cast<double>(x[i]) : 1.0; };
  std::vector<Touching> touching;  // of most rows none
  double free = 0;
  for (Index i = 0; i < row.n; ++i) {
    const Place at = places.of(i);
    moving[i] = at == Place::Free ? 1 : 0;
    above[i] = at == Place::Upper ? 1 : 0;
    if (at == Place::Free) free += weight(i);
    if (at == Place::TouchingLower) touching.push_back({.entry = i, .q = weight(i)});
    if (at == Place::TouchingUpper) touching.push_back({.entry = i, .q = -weight(i)});
  }
  if (!touching.empty()) share_touching(touching, free, moving, above);
}

template void row_shares(const RowOf<float>&, const BudgetRow&, const float*, double*, double*);
template void row_shares(const RowOf<double>&, const BudgetRow&, const double*, double*, double*);

}  // namespace altdiff::detail
