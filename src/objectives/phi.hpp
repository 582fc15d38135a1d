#pragma once

#include <altdiff/smooth.hpp>

namespace altdiff::detail {

/// phi of a separable term, on many numbers at a time.
struct Phi {
  TermKind kind = TermKind::Square;
  double power = 2;

  using Numbers = Eigen::Ref<const Eigen::ArrayXd>;

  /// phi and its first two derivatives. The value is not finite outside the domain.
  void evaluate(const Numbers& t, Eigen::ArrayXd& value, Eigen::ArrayXd& first, Eigen::ArrayXd& second) const;

  /// Whether phi' takes every value, and `inverse` is known.
  [[nodiscard]] bool invertible() const;
  /// t with phi'(t) = slope.
  void inverse(const Numbers& slope, Eigen::ArrayXd& t) const;

  [[nodiscard]] double lower() const;  ///< end of the domain
  [[nodiscard]] double upper() const;
  [[nodiscard]] double inside() const;  ///< a point of the domain
  /// Whether phi, though not phi', is finite at the ends of its domain.
  [[nodiscard]] bool closed() const { return kind == TermKind::Entropy || kind == TermKind::BinaryEntropy; }

  /// phi' at the end of a closed domain is infinite; what stands for it is the slope at the smallest number.
  static constexpr double end_slope = 745;
};

}  // namespace altdiff::detail
