#include "engines/active_set/dual_program.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/dense.hpp"

namespace altdiff::detail {

namespace {
constexpr double smallest_pivot = 1e-14;  // of M_SS: below, its rows are as good as dependent

using Factor = Eigen::Map<DenseMatrix, 0, Eigen::OuterStride<>>;
using ConstFactor = Eigen::Map<const DenseMatrix, 0, Eigen::OuterStride<>>;
}  // namespace

void DualState::list_rows() {
  rows.resize(side.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < side.size(); ++i) {  // without a branch that nobody could predict
    rows[count] = static_cast<Index>(i);
    count += side[i] != 0 ? 1 : 0;
  }
  rows.resize(count);
}

void DualState::solve(double* r) const {
  const auto count = static_cast<Index>(rows.size());
  const ConstFactor L(factor.data(), count, count, Eigen::OuterStride<>(stride()));
  const Eigen::Map<DenseMatrix> x(r, count, 1);
  triangular_solve(Op::None, L, x);
  triangular_solve(Op::Transpose, L, x);
}

KeptSet::KeptSet(const DualState& state) {
  const auto count = static_cast<std::size_t>(state.count());
  rows_.reserve(count);
  factor_.reserve(count * (count + 1) / 2);
  const auto stride = static_cast<std::size_t>(state.stride());
  for (std::size_t s = 0; s < count; ++s) {
    const auto row = static_cast<std::int32_t>(state.rows[s]);
    const bool upper = state.side[static_cast<std::size_t>(state.rows[s])] > 0;
    rows_.push_back(upper ? row + 1 : -(row + 1));
    const auto column = state.factor.begin() + static_cast<std::ptrdiff_t>(s * stride);
    factor_.insert(factor_.end(), column + static_cast<std::ptrdiff_t>(s),
                   column + static_cast<std::ptrdiff_t>(count));
  }
}

void KeptSet::solve(double* r) const {
  packed_forward(factor_.data(), count(), r);
  packed_backward(factor_.data(), count(), r);
}

void subtract_columns(const DualProgram& program, const std::vector<Index>& rows, double factor,
                      const double* weights, double* v) {
  std::size_t s = 0;
  for (; s + 4 <= rows.size(); s += 4) {  // four columns at a time: v is read and written once for them
    const double* a = program.column(rows[s]);
    const double* b = program.column(rows[s + 1]);
    const double* c = program.column(rows[s + 2]);
    const double* d = program.column(rows[s + 3]);
    const double w0 = factor * weights[s];
    const double w1 = factor * weights[s + 1];
    const double w2 = factor * weights[s + 2];
    const double w3 = factor * weights[s + 3];
    for (Index i = 0; i < program.k; ++i) v[i] -= w0 * a[i] + w1 * b[i] + w2 * c[i] + w3 * d[i];
  }
  for (; s < rows.size(); ++s) {
    const double* a = program.column(rows[s]);
    const double w = factor * weights[s];
    for (Index i = 0; i < program.k; ++i) v[i] -= w * a[i];
  }
}

void row_values(const DualProgram& program, const DualState& state, double* v) {
  std::copy_n(program.t, program.k, v);
  subtract_columns(program, state.rows, 1, state.lambda.data(), v);
}

bool factorise_rows(const DualProgram& program, DualState& state) {
  const Index count = state.count();
  state.factor.resize(static_cast<std::size_t>(count * state.stride()));
  if (count == 0) return true;
  Factor L(state.factor.data(), count, count, Eigen::OuterStride<>(state.stride()));
  for (Index j = 0; j < count; ++j) {
    const double* column = program.column(state.rows[static_cast<std::size_t>(j)]);
    for (Index i = j; i < count; ++i) L(i, j) = column[state.rows[static_cast<std::size_t>(i)]];
  }
  if (!partial_cholesky(L, 1)) return false;
  for (Index j = 0; j < count; ++j) {
    const Index row = state.rows[static_cast<std::size_t>(j)];
    if (!(L(j, j) * L(j, j) > smallest_pivot * program.entry(row, row))) return false;
  }
  return true;
}

bool solve_on_rows(const DualProgram& program, DualState& state) {
  if (!factorise_rows(program, state)) return false;
  state.lambda.clear();
  for (const Index row : state.rows)
    state.lambda.push_back(program.t[row] - program.limit(row, state.side[static_cast<std::size_t>(row)]));
  state.solve(state.lambda.data());
  return true;
}

double largest_multiplier(const DualProgram& program, const DualState& state) {
  double largest = 0;
  for (std::size_t s = 0; s < state.rows.size(); ++s)
    largest = std::max(largest, std::abs(state.lambda[s]) * program.lengths[state.rows[s]]);
  return largest;
}

}  // namespace altdiff::detail
