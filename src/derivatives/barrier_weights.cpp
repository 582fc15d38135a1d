#include "derivatives/barrier_weights.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <vector>

#include "derivatives/constraint_normals.hpp"
#include "derivatives/least_nonnegative.hpp"
#include "linalg/at.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_steps = 200;
constexpr double last_step = 1e-10;  // Newton decrement; the step after it squares it
constexpr double implied = 1e-7;     // part of a row that the strict rows leave
constexpr double flat = 1e-7;        // part of what is left that has no curvature
constexpr double opposed = 1e-9;     // what others leave of a row, relative
constexpr Index max_asked = 64;      // weak rows
constexpr double as_strict = 1e9;    // weight times response: as good as infinite

/// t with t o (M t) = 1, M of unit diagonal; stops where an entry is as good as infinite.
Vector central(const DenseMatrix& M) {
  Vector t = Vector::Ones(M.rows());
  for (int step = 0; step < max_steps && t.squaredNorm() < as_strict; ++step) {
    const Vector slope = M * t - t.cwiseInverse();
    DenseMatrix curvature = M;
    curvature.diagonal() += t.cwiseAbs2().cwiseInverse();
    const Vector d = curvature.ldlt().solve(-slope);
    const double decrement = std::sqrt(std::max(0.0, -slope.dot(d)));
    t += d / (1 + decrement);
    if (decrement < last_step) break;
  }
  return t;
}

/// The weak rows on their way.
class WeakRows {
 public:
  WeakRows(const QuadraticProgram<SparseMatrix>& qp, const ActiveSet& W) : rows_(qp, W) {
    for (Index k = 0; k < rows_.count(); ++k) left_.push_back(k);
  }

  [[nodiscard]] Index count() const { return std::ssize(left_); }
  /// Of those that are left, one column each.
  [[nodiscard]] DenseMatrix normals() const { return rows_.normals(Eigen::all, left_); }

  /// Keeps those that `goes` is not true of.
  template <class Goes>
  void drop(const Goes& goes) {
    std::vector<Index> kept;
    for (Index k = 0; k < count(); ++k)
      if (!goes(k)) kept.push_back(left_[at(k)]);
    left_ = std::move(kept);
  }

  /// Those that `holds` is true of become strict; whether there are any.
  template <class Holds>
  bool make_strict(const Holds& holds, ActiveSet& S) {
    const Index before = count();
    drop([&](Index k) {
      if (!holds(k)) return false;
      rows_.member(left_[at(k)], S.z, S.box) = rows_.value(left_[at(k)]);
      return true;
    });
    return count() < before;
  }

  /// Adds all of them to S, row k giving way by give[k].
  void add_to(ActiveSet& S, const Vector& give, Index p) const {
    if (count() == 0) return;
    S.give = {.y = Vector::Zero(p), .z = Vector::Zero(S.z.size()), .box = Vector::Zero(S.box.size())};
    for (Index k = 0; k < count(); ++k) {
      rows_.member(left_[at(k)], S.z, S.box) = rows_.value(left_[at(k)]);
      rows_.member(left_[at(k)], S.give.z, S.give.box) = give[k];
    }
  }

 private:
  ConstraintNormals rows_;
  std::vector<Index> left_{};
};

/// Rows that hold x together in a flat direction: none of them can be left without crossing another. Mostly
/// one direction leaves all of them at once; the others are asked one by one, unless they are too many.
std::vector<bool> held_together(const DenseMatrix& flat_parts) {
  std::vector<bool> held(at(flat_parts.cols()));
  const Vector lengths = flat_parts.colwise().norm();
  const Vector units = (lengths.array() > 0).select(lengths.cwiseInverse(), 0.0);
  const Vector away = -(flat_parts * units);
  const Vector rates = units.cwiseProduct(flat_parts.transpose() * away);
  const bool leaves_all = (lengths.array() == 0 || rates.array() < -opposed).all();
  if (leaves_all || flat_parts.cols() > max_asked) return held;
  for (Index k = 0; k < flat_parts.cols(); ++k) {
    DenseMatrix others = flat_parts;
    others.col(k).setZero();
    const double size = flat_parts.col(k).norm();
    const std::vector<bool> none_free(held.size());
    held[at(k)] = least_nonnegative(others, flat_parts.col(k), none_free, opposed * size).has_value();
  }
  return held;
}

}  // namespace

void add_barrier_weights(const QuadraticProgram<SparseMatrix>& qp, const RowLengths& lengths,
                         const ActiveSet& W, ActiveSet& S) {
  WeakRows weak(qp, W);
  while (weak.count() > 0) {
    const NullSpace strict(qp, S, lengths);
    const Vector lengths_of = weak.normals().colwise().norm();
    weak.drop([inside = strict.inside(weak.normals()), &lengths_of](Index k) {
      return inside.col(k).norm() <= implied * lengths_of[k];
    });
    const Vector inside = strict.inside(weak.normals()).colwise().norm();
    DenseMatrix flat_parts = strict.flat(weak.normals());
    for (Index k = 0; k < weak.count(); ++k)  // rounding must not seem to hold what it is opposed to
      if (flat_parts.col(k).norm() <= flat * inside[k]) flat_parts.col(k).setZero();
    const auto is_flat = [&](Index k) { return !flat_parts.col(k).isZero(0); };
    if (!strict.regular()) {
      const std::vector<bool> held = held_together(flat_parts);
      if (weak.make_strict([&](Index k) { return is_flat(k) && held[at(k)]; }, S)) continue;
      weak.drop(is_flat);
    }
    DenseMatrix M = strict.response(weak.normals());
    const Vector unit = M.diagonal().cwiseSqrt().cwiseInverse();
    M = unit.asDiagonal() * M * unit.asDiagonal();
    const Vector t = central(M);
    const double infinite = 0.5 * as_strict / static_cast<double>(std::max<Index>(1, t.size()));
    if (weak.make_strict([&](Index k) { return t[k] * t[k] > infinite; }, S)) continue;
    weak.add_to(S, t.cwiseProduct(unit).cwiseAbs2().cwiseInverse(), qp.p());  // (W4)
    return;
  }
}

}  // namespace altdiff::detail
