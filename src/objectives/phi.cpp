#include "objectives/phi.hpp"

#include <algorithm>
#include <limits>

namespace altdiff::detail {

namespace {

using Array = Eigen::ArrayXd;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// log(1 + e^t) without overflow. With e = e^-|t|: log(1 + e) has what the rounding of 1 + e did to e taken
/// out again, because Eigen has log1p for one number at a time only, as it has `select`.
void softplus(const Phi::Numbers& t, Array& value, Array& first, Array& second) {
  second = (-t.abs()).exp();
  first = 1 + second;
  value = first.log() * second / (first - 1);
  for (Index i = 0; i < t.size(); ++i) {
    const double e = second[i];
    const double larger = 1 / first[i];
    const double smaller = e * larger;
    value[i] = std::max(t[i], 0.0) + (first[i] == 1 ? e : value[i]);
    first[i] = t[i] >= 0 ? larger : smaller;
    second[i] = larger * smaller;
  }
}

void entropy(const Phi::Numbers& t, Array& value, Array& first, Array& second) {
  first = t.log();  // NaN outside the domain
  value = t * first;
  value = (t == 0).select(0.0, value);
  first += 1;
  second = 1 / t;
}

void binary_entropy(const Phi::Numbers& t, Array& value, Array& first, Array& second) {
  const Array a = t.log();
  const Array b = (-t).log1p();
  value = (t == 0 || t == 1).select(0.0, t * a + (1 - t) * b);
  first = a - b;
  second = 1 / (t * (1 - t));
}

void pseudo_huber(const Phi::Numbers& t, Array& value, Array& first, Array& second) {
  second = (1 + t.square()).sqrt();
  first = t / second;
  value = t * first / (1 + 1 / second);  // without the difference of two numbers near one
  second = 1 / second.cube();
}

void power_of(double power, const Phi::Numbers& t, Array& value, Array& first, Array& second) {
  const Array size = t.abs();
  second = power == 2 ? Array::Constant(t.size(), 2.0) : Array(power * (power - 1) * size.pow(power - 2));
  first = power == 2 ? Array(2 * t) : Array(power * size.pow(power - 1) * t.sign());
  value = size.pow(power);
}

}  // namespace

void Phi::evaluate(const Numbers& t, Array& value, Array& first, Array& second) const {
  switch (kind) {
    case TermKind::Entropy:
      entropy(t, value, first, second);
      break;
    case TermKind::NegativeLog:
      value = -t.log();
      first = -1 / t;
      second = first.square();
      break;
    case TermKind::Softplus:
      softplus(t, value, first, second);
      break;
    case TermKind::Exp:
      value = first = second = t.exp();
      break;
    case TermKind::PseudoHuber:
      pseudo_huber(t, value, first, second);
      break;
    case TermKind::Power:
      power_of(power, t, value, first, second);
      break;
    case TermKind::BinaryEntropy:
      binary_entropy(t, value, first, second);
      break;
    default:
      value = t.square() / 2;
      first = t;
      second = Array::Ones(t.size());
  }
}

bool Phi::invertible() const {
  return kind == TermKind::Entropy || kind == TermKind::BinaryEntropy || kind == TermKind::Square;
}

void Phi::inverse(const Numbers& slope, Array& t) const {
  if (kind == TermKind::Entropy) {
    t = (slope - 1).exp();
  } else if (kind == TermKind::BinaryEntropy) {
    t = (-slope.abs()).exp();
    t = (slope >= 0).select(1 / (1 + t), t / (1 + t));
  } else {
    t = slope;
  }
}

double Phi::lower() const {
  const bool bounded =
      kind == TermKind::Entropy || kind == TermKind::NegativeLog || kind == TermKind::BinaryEntropy;
  return bounded ? 0 : -infinity;
}

double Phi::upper() const { return kind == TermKind::BinaryEntropy ? 1 : infinity; }

double Phi::inside() const {
  if (kind == TermKind::BinaryEntropy) return 0.5;
  return lower() == 0 ? 1 : 0;
}

}  // namespace altdiff::detail
