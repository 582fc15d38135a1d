#include "derivatives/barrier_weights.hpp"

#include <Eigen/Cholesky>
#include <cmath>
#include <vector>

namespace altdiff::detail {

namespace {

constexpr int max_steps = 200;
constexpr double last_step = 1e-10;  // Newton decrement; the step after it squares it
constexpr double implied = 1e-7;     // part of a row that the strict rows leave
constexpr double flat = 1e-7;        // part of what is left that has no curvature
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

}  // namespace

void add_barrier_weights(const QuadraticProgram<SparseMatrix>& qp, const RowLengths& lengths, const ActiveSet& W,
                         ActiveSet& S) {
  const DenseMatrix G(qp.G);
  std::vector<WeakRow> weak = list(W);
  while (!weak.empty()) {
    const NullSpace strict(qp, S, lengths);
    std::erase_if(weak, [&](const WeakRow& row) {
      const Vector normal = normal_of(G, row);
      const NullSpace::Reach reach = strict.reach_of(normal);
      return reach.inside <= implied * normal.norm() || reach.flat > flat * reach.inside;
    });
    DenseMatrix normals(qp.n(), std::ssize(weak));
    for (Index k = 0; k < normals.cols(); ++k) normals.col(k) = normal_of(G, weak[static_cast<std::size_t>(k)]);
    DenseMatrix M = strict.response(normals);
    const Vector unit = M.diagonal().cwiseSqrt().cwiseInverse();
    M = unit.asDiagonal() * M * unit.asDiagonal();
    const Vector t = central(M);
    ActiveSet next = S;
    next.give = {.y = Vector::Zero(qp.p()), .z = Vector::Zero(qp.m()), .box = Vector::Zero(qp.n())};
    std::vector<WeakRow> others;
    bool stricter = false;
    for (Index k = 0; k < normals.cols(); ++k) {
      const WeakRow& row = weak[static_cast<std::size_t>(k)];
      const bool infinite = 2 * t[k] * t[k] > as_strict / static_cast<double>(t.size());
      stricter |= infinite;
      if (!infinite) others.push_back(row);
      ActiveSet& target = infinite ? S : next;
      const double give = std::pow(t[k] * unit[k], -2);  // (W4)
      (row.side == 0 ? target.z[row.place] : target.box[row.place]) = row.side == 0 ? 1 : row.side;
      if (!infinite) (row.side == 0 ? target.give.z[row.place] : target.give.box[row.place]) = give;
    }
    if (!stricter) {
      if (!weak.empty()) S = next;
      return;
    }
    weak = std::move(others);
  }
}

}  // namespace altdiff::detail
