#include "derivatives/barrier_weights.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <vector>

#include "derivatives/least_nonnegative.hpp"
#include "linalg/at.hpp"

namespace altdiff::detail {

namespace {

constexpr int max_steps = 200;
constexpr double last_step = 1e-10;  // Newton decrement; the step after it squares it
constexpr double implied = 1e-7;     // part of a row that the strict rows leave
constexpr double flat = 1e-7;        // part of what is left that has no curvature
constexpr double opposed = 1e-9;     // what others leave of a row, relative
constexpr double as_strict = 1e9;    // weight times response: as good as infinite

/// A weak row: of G, or the bound of a variable.
struct WeakRow {
  Index place;
  double side;  // of a bound; zero: a row of G
};

std::vector<WeakRow> list(const ActiveSet& W) {
  std::vector<WeakRow> rows;
  for (Index i = 0; i < W.z.size(); ++i)
    if (W.z[i] != 0) rows.push_back({.place = i, .side = 0});
  for (Index j = 0; j < W.box.size(); ++j)
    if (W.box[j] != 0) rows.push_back({.place = j, .side = W.box[j]});
  return rows;
}

Vector normal_of(const DenseMatrix& G, const WeakRow& row) {
  if (row.side == 0) return G.row(row.place);
  Vector unit = Vector::Zero(G.cols());
  unit[row.place] = row.side;
  return unit;
}

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

/// The weak rows on their way: those that are left, and their normals, one column each.
class WeakRows {
 public:
  WeakRows(const QuadraticProgram<SparseMatrix>& qp, const ActiveSet& W) : rows_(list(W)) {
    const DenseMatrix G(qp.G);
    normals_.resize(qp.n(), std::ssize(rows_));
    for (Index k = 0; k < count(); ++k) normals_.col(k) = normal_of(G, rows_[at(k)]);
  }

  [[nodiscard]] Index count() const { return std::ssize(rows_); }
  [[nodiscard]] const DenseMatrix& normals() const { return normals_; }

  /// Keeps those that `goes` is not true of.
  template <class Goes>
  void drop(const Goes& goes) {
    std::vector<Index> kept;
    for (Index k = 0; k < count(); ++k)
      if (!goes(k)) kept.push_back(k);
    std::vector<WeakRow> rows;
    for (const Index k : kept) rows.push_back(rows_[at(k)]);
    rows_ = std::move(rows);
    normals_ = DenseMatrix(normals_(Eigen::all, kept));
  }

  /// Those that `holds` is true of become strict; whether there are any.
  template <class Holds>
  bool make_strict(const Holds& holds, ActiveSet& S) {
    const Index before = count();
    drop([&](Index k) {
      if (!holds(k)) return false;
      member(rows_[at(k)], S.z, S.box) = rows_[at(k)].side == 0 ? 1 : rows_[at(k)].side;
      return true;
    });
    return count() < before;
  }

  /// Adds all of them to S, row k giving way by give[k].
  void add_to(ActiveSet& S, const Vector& give, Index p) const {
    if (count() == 0) return;
    S.give = {.y = Vector::Zero(p), .z = Vector::Zero(S.z.size()), .box = Vector::Zero(S.box.size())};
    for (Index k = 0; k < count(); ++k) {
      const WeakRow& row = rows_[at(k)];
      member(row, S.z, S.box) = row.side == 0 ? 1 : row.side;
      member(row, S.give.z, S.give.box) = give[k];
    }
  }

 private:
  static double& member(const WeakRow& row, Vector& z, Vector& box) {
    return row.side == 0 ? z[row.place] : box[row.place];
  }

  std::vector<WeakRow> rows_;
  DenseMatrix normals_{};
};

/// Rows that hold x together in a flat direction: none of them can be left without crossing another.
std::vector<bool> held_together(const DenseMatrix& flat_parts) {
  std::vector<bool> held(at(flat_parts.cols()));
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

void add_barrier_weights(const QuadraticProgram<SparseMatrix>& qp, const RowLengths& lengths, const ActiveSet& W,
                         ActiveSet& S) {
  WeakRows weak(qp, W);
  while (weak.count() > 0) {
    const NullSpace strict(qp, S, lengths);
    const Vector lengths_of = weak.normals().colwise().norm();
    weak.drop([inside = strict.inside(weak.normals()), &lengths_of](Index k) {
      return inside.col(k).norm() <= implied * lengths_of[k];
    });
    const Vector inside = strict.inside(weak.normals()).colwise().norm();
    const DenseMatrix flat_parts = strict.flat(weak.normals());
    const auto is_flat = [&](Index k) { return flat_parts.col(k).norm() > flat * inside[k]; };
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
