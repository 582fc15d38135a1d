#pragma once

#include <altdiff/problem.hpp>

namespace altdiff::detail {

/// A normalised program seen from an origin, without the inequalities and bounds that are far from there:
/// they rarely bind, but one of 1e10 sets the size of slacks and the precision of everything else. Where they
/// do bind, the origin moves to them, and they are near.
///
///     x = origin + u,  q + P origin,  b - A origin,  h - G origin,  lb - origin,  ub - origin          (S5)
class NearbyProgram {
 public:
  using Program = QuadraticProgram<SparseMatrix>;

  /// The origin is zero, or the closest point to it within the bounds.
  explicit NearbyProgram(const Program& user);

  /// Whether a limit is left out.
  [[nodiscard]] bool leaves_out() const { return left_out_ > 0; }
  [[nodiscard]] const Program& program() const { return near_; }
  [[nodiscard]] Vector from_origin(const Vector& u) const { return origin_ + u; }

  /// How far the origin can go along d before it meets a limit that was left out, at most `longest`.
  [[nodiscard]] double room(const Vector& d, double longest) const;
  void move_origin(const Vector& step);

 private:
  void look_around();

  const Program& user_;
  Vector norms_G_;
  double reference_;  // size of x, as far as the equalities tell
  Vector origin_;
  Vector h_, lb_, ub_;  // all limits, from the origin
  Program near_;
  Index left_out_ = 0;
};

}  // namespace altdiff::detail
