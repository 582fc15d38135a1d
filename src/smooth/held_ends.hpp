#pragma once

#include <altdiff/smooth.hpp>

namespace altdiff::detail {

/// A program whose variables stay at the end of a domain where a bound leaves them nothing else: ub = 0 and
/// an entropy, say. There both bounds become that end, whatever the other one was. Bounds that a domain
/// implies, lb = 0 of an entropy, are left out: f is steeper there than any multiplier, so that x, though it
/// may be 1e-40, is not at its bound.
class HeldEnds {
 public:
  explicit HeldEnds(const SmoothProgram& user);
  HeldEnds(const HeldEnds&) = delete;
  HeldEnds& operator=(const HeldEnds&) = delete;
  HeldEnds(HeldEnds&&) = delete;
  HeldEnds& operator=(HeldEnds&&) = delete;
  ~HeldEnds() = default;

  [[nodiscard]] const SmoothProgram& program() const { return changed_ ? own_ : user_; }

  /// The bounds as the user gave them, for derivatives.
  void restore(BatchProgram& constraints) const;

 private:
  void look_at(const Term& term, Index i);
  void set(Index j, Index i, double lb, double ub);
  void copy_bounds();

  const SmoothProgram& user_;
  SmoothProgram own_{};
  DenseMatrix lb_{}, ub_{};  // one column an instance
  bool changed_ = false;
};

}  // namespace altdiff::detail
