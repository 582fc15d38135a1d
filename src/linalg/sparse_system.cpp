#include "linalg/sparse_system.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/known_analyses.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

int place(const SparseMatrix& upper, Index row, Index column) {
  const int* first = upper.innerIndexPtr() + upper.outerIndexPtr()[column];
  const int* last = upper.innerIndexPtr() + upper.outerIndexPtr()[column + 1];
  return static_cast<int>(std::lower_bound(first, last, row) - upper.innerIndexPtr());
}

}  // namespace

KktPattern::KktPattern(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G) {
  const Index n = H.rows();
  const Index size = n + A.rows() + G.rows();
  std::vector<Eigen::Triplet<double>> entries;
  const auto add = [&](const SparseMatrix& X, Index first_row, bool transposed) {
    for (Index j = 0; j < X.outerSize(); ++j)
      for (SparseMatrix::InnerIterator it(X, j); it; ++it) {
        const Index row = first_row + it.row();
        if (transposed)
          entries.emplace_back(static_cast<int>(j), static_cast<int>(row), 1.0);
        else if (row <= j)
          entries.emplace_back(static_cast<int>(row), static_cast<int>(j), 1.0);
      }
  };
  add(H, 0, false);
  add(A, n, true);
  add(G, n + A.rows(), true);
  for (Index k = 0; k < size; ++k) entries.emplace_back(static_cast<int>(k), static_cast<int>(k), 1.0);
  upper.resize(size, size);
  upper.setFromTriplets(entries.begin(), entries.end());

  const auto locate = [&](const SparseMatrix& X, Index first_row, bool transposed, std::vector<int>& places) {
    for (Index j = 0; j < X.outerSize(); ++j)
      for (SparseMatrix::InnerIterator it(X, j); it; ++it) {
        const Index row = first_row + it.row();
        const bool stored = transposed || row <= j;
        places.push_back(stored ? place(upper, std::min(row, j), std::max(row, j)) : -1);
      }
  };
  locate(H, 0, false, of_H);
  locate(A, n, true, of_A);
  locate(G, n + A.rows(), true, of_G);
  for (Index k = 0; k < size; ++k) diagonal.push_back(place(upper, k, k));
}

SparseSystem::SparseSystem(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G)
    : analysis_(analysis_of(H, A, G)),
      values_(static_cast<std::size_t>(analysis_->kkt.upper.nonZeros())),
      ldl_({analysis_, &analysis_->ldl}),
      root_a_(A.rows()),
      root_g_(G.rows()),
      R_(H.rows()) {}

void SparseSystem::fill(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G, double sigma) {
  const KktPattern& kkt = analysis_->kkt;
  double* values = values_.data();
  std::ranges::fill(values_, 0.0);
  for (std::size_t e = 0; e < kkt.of_H.size(); ++e)
    if (kkt.of_H[e] >= 0) values[kkt.of_H[e]] += H.valuePtr()[e];
  for (std::size_t e = 0; e < kkt.of_A.size(); ++e)
    values[kkt.of_A[e]] = root_a_[A.innerIndexPtr()[e]] * A.valuePtr()[e];
  for (std::size_t e = 0; e < kkt.of_G.size(); ++e)
    values[kkt.of_G[e]] = root_g_[G.innerIndexPtr()[e]] * G.valuePtr()[e];
  for (std::size_t k = 0; k < kkt.diagonal.size(); ++k) {
    const auto row = static_cast<Index>(k);
    values[kkt.diagonal[k]] += row < H.rows() ? sigma + on_diagonal(R_[row]) : -1.0;
  }
  if ((R_.array() == std::numeric_limits<double>::infinity()).any()) take_out_held();
}

void SparseSystem::take_out_held() {
  const SparseMatrix& upper = analysis_->kkt.upper;
  const auto held = [&](Index k) { return k < R_.size() && std::isinf(R_[k]); };
  for (Index j = 0; j < upper.outerSize(); ++j)
    for (Index e = upper.outerIndexPtr()[j]; e < upper.outerIndexPtr()[j + 1]; ++e) {
      const Index i = upper.innerIndexPtr()[e];
      if (held(i) || held(j)) values_[static_cast<std::size_t>(e)] = i == j ? 1 : 0;
    }
}

bool SparseSystem::factorise(const SparseMatrix& H, const SparseMatrix& A, const SparseMatrix& G,
                             const Penalties& R) {
  root_a_ = R.A.cwiseSqrt();
  root_g_ = R.G.cwiseSqrt();
  R_ = R.box;
  fill(H, A, G, R.sigma);
  return ldl_.factorise(values_.data(), H.rows());
}

/// Calls body(c, rhs) for the columns c, c + 1, ... that are solved for together; rhs has one of them each.
template <class Body>
void SparseSystem::for_columns(Index columns, Vector& workspace, const Body& body) const {
  const auto visit = [&]<int count>(Index c, std::integral_constant<int, count> /*columns*/) {
    check_interrupt(2 * count * ldl_.fill());
    constexpr int order = count == 1 ? Eigen::ColMajor : Eigen::RowMajor;
    Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, count, order>> rhs(workspace.data(), ldl_.size(), count);
    body(c, rhs);
  };
  Index c = 0;
  if (workspace.size() >= workspace_size(columns))
    for (constexpr int some = SparseLdl::side_by_side; ldl_.together(columns - c) == some; c += some)
      visit(c, std::integral_constant<int, some>());
  for (; c < columns; ++c) visit(c, std::integral_constant<int, 1>());
}

void SparseSystem::solve(Block x, Vector& workspace) const {
  const Index n = x.rows();
  for_columns(x.cols(), workspace, [&]<class Rows>(Index c, Rows& rhs) {
    constexpr int count = Rows::ColsAtCompileTime;
    rhs.topRows(n) = x.middleCols<count>(c);
    rhs.bottomRows(ldl_.size() - n).setZero();
    ldl_.solve(rhs.data(), count, workspace.data() + rhs.size());
    x.middleCols<count>(c) = rhs.topRows(n);  // (K1)
  });
}

void SparseSystem::solve(Block x, Block y, Block z, Block box, Vector& workspace) const {
  const Index n = x.rows();
  const Index p = y.rows();
  const Index m = z.rows();
  add_bounds(R_, box, x);
  for_columns(x.cols(), workspace, [&]<class Rows>(Index c, Rows& rhs) {
    constexpr int count = Rows::ColsAtCompileTime;
    rhs.topRows(n) = x.middleCols<count>(c);
    rhs.middleRows(n, p) = root_a_.asDiagonal() * y.middleCols<count>(c);
    rhs.bottomRows(m) = root_g_.asDiagonal() * z.middleCols<count>(c);
    ldl_.solve(rhs.data(), count, workspace.data() + rhs.size());
    x.middleCols<count>(c) = rhs.topRows(n);
    y.middleCols<count>(c) = root_a_.asDiagonal() * rhs.middleRows(n, p);
    z.middleCols<count>(c) = root_g_.asDiagonal() * rhs.bottomRows(m);
  });
  solve_bounds(R_, x, box);  // (K2)
}

}  // namespace altdiff::detail
