#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/dual_newton.hpp"
#include "linalg/at.hpp"
#include "linalg/dense.hpp"

// One step: the rows that hold, M, and the last factor while it serves.

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int most_changes = 12;            // of the set within a step
constexpr double hardly = 1e-3;             // M may change; each step then gains three digits
constexpr double all_digits = 39;           // -log of the last one, and a little more
constexpr double nearly_dependent = 1e-11;  // a pivot of M relative to its diagonal
constexpr Index of_a_round = 10;            // work of a refinement, in columns of M

}  // namespace

/// Rows that hold, or should.
void DualNewton::choose_rows() {
  rows.clear();
  for (Index i = 0; i < p_; ++i) rows.push_back(i);
  for (Index i = 0; i < m_; ++i)
    if (z[i] > 0 || here_.Gx[i] > 0) rows.push_back(p_ + i);
}

void DualNewton::set_curvature() {
  const auto x_here = here_.x.array();
  const auto inside = x_here > lower_.array() && x_here < upper_.array();
  D = 1 / (weight_.array() * here_.second);
  D = inside.select(D, 0.0);
}

/// M on `rows`.                                                                                         (N5)
void DualNewton::form_M() {
  const Index k = count();
  root_ = D.cwiseSqrt();
  row_data_.clear();
  for (const Index row : rows) row_data_.push_back(row_of_C(row).data());
  small_scaled_rows(row_data_, root_.data(), n_, scaled_.data(), scaled_.rows());
  gram(1, scaled_.topRows(k).leftCols(n_), 0, M_.topRows(k).leftCols(k), 1);
  symmetrise(M_.topRows(k).leftCols(k));
}

/// The multipliers of the rows in the set change so that these rows hold; those of the others vanish.
bool DualNewton::solve_on_set() {
  const auto s = static_cast<Index>(set_.size());
  for (Index i = 0; i < count(); ++i) step_[i] = held_[at(i)] != 0 ? 0 : -multiplier(rows[at(i)]);
  for (Index a = 0; a < s; ++a) {
    const Index i = set_[at(a)];
    right_[a] = row_value(here_, rows[at(i)]);
    if (s < count()) right_[a] -= M_.col(i).head(count()).dot(step_.head(count()));
  }
  return solve_with_M();
}

/// On the set, from `right_` to `step_`.
bool DualNewton::solve_with_M() {
  const auto s = static_cast<Index>(set_.size());
  kept_.head(s) = right_.head(s);
  factor_rows_.clear();
  double more = 1e-15;
  for (int attempt = 0; attempt < 6; ++attempt, more *= 100) {
    for (Index b = 0; b < s; ++b) {
      const double* column = M_.data() + set_[at(b)] * M_.rows();
      for (Index a = b; a < s; ++a) factor_(a, b) = column[set_[at(a)]];
      factor_(b, b) = factor_(b, b) * (1 + more) + damping_ * row_sizes_[rows[at(set_[at(b)])]];
    }
    if (s > 0 && !partial_cholesky(factor_.topLeftCorner(s, s), 1)) continue;
    right_.head(s) = kept_.head(s);
    solve_with_factor(s);
    for (Index a = 0; a < s; ++a) step_[set_[at(a)]] = right_[a];
    if (attempt == 0 && damping_ == 0) remember_factor();
    return right_.head(s).allFinite();
  }
  return false;
}

void DualNewton::solve_with_factor(Index size) {
  triangular_solve(Op::None, factor_.topLeftCorner(size, size), right_.head(size));
  triangular_solve(Op::Transpose, factor_.topLeftCorner(size, size), right_.head(size));
}

void DualNewton::remember_factor() {
  for (const Index i : set_) factor_rows_.push_back(rows[at(i)]);
  factor_D_ = D;
}

/// A c such that M is between 1 - c and 1 + c times what was factorised; infinite if that has other rows or
/// variables.                                                                                          (N12)
double DualNewton::change_of_M() const {
  if (factor_rows_.empty() || factor_rows_ != rows) return infinity;
  double largest = 0;
  for (Index j = 0; j < n_; ++j) {
    if ((D[j] > 0) != (factor_D_[j] > 0)) return infinity;
    if (D[j] > 0) largest = std::max(largest, std::abs(D[j] / factor_D_[j] - 1));
  }
  return largest;
}

/// The step by the last factor, where M has hardly changed since.
bool DualNewton::step_by_last_factor() {
  if (damping_ > 0 || !(change_of_M() <= hardly)) return false;
  for (Index i = 0; i < count(); ++i) right_[i] = row_value(here_, rows[at(i)]);
  solve_with_factor(count());
  step_.head(count()) = right_.head(count());
  for (Index i = 0; i < count(); ++i)
    if (rows[at(i)] >= p_ && multiplier(rows[at(i)]) + step_[i] < 0) return false;
  return step_.head(count()).allFinite();
}

/// The step with all of `rows` in the set.
bool DualNewton::step_on_rows() {
  form_M();
  hold_all();
  return solve_on_set();
}

void DualNewton::hold_all() {
  std::fill_n(held_.begin(), rows.size(), std::uint8_t{1});
  list_set();
}

void DualNewton::list_set() {
  set_.clear();
  for (Index i = 0; i < count(); ++i)
    if (held_[at(i)] != 0) set_.push_back(i);
}

/// Rows whose multiplier would be negative leave, rows that would be violated enter.
bool DualNewton::change_set() {
  bool changed = false;
  for (Index i = 0; i < count(); ++i) {
    const Index row = rows[at(i)];
    if (row < p_) continue;
    if (held_[at(i)] != 0) {
      if (z[row - p_] + step_[i] >= 0) continue;
      held_[at(i)] = 0;
    } else {
      const double value = row_value(here_, row) - M_.col(i).head(count()).dot(step_.head(count()));
      if (value <= 0) continue;
      held_[at(i)] = 1;
    }
    changed = true;
  }
  return changed;
}

/// A rough one leaves the set as it is: far from the solution it would not last.
bool DualNewton::find_step(bool rough) {
  choose_rows();
  set_curvature();
  if (step_by_last_factor()) return true;
  if (!step_on_rows()) return false;
  for (int change = rough ? most_changes : 1; change < most_changes && change_set(); ++change) {
    list_set();
    if (!in_time() || !solve_on_set()) return false;
  }
  // Where the set did not settle, no multiplier may fall below zero all the same.
  for (Index i = 0; i < count(); ++i)
    if (rows[at(i)] >= p_) step_[i] = std::max(step_[i], -multiplier(rows[at(i)]));
  return true;
}

bool DualNewton::factorise(double more) {
  const Index k = count();
  const double change = more > 0 ? infinity : change_of_M();
  refinements = change > 0 && change < 1 ? static_cast<int>(std::ceil(all_digits / -std::log(change))) : 0;
  if (!(change < 1) || of_a_round * refinements > k) {
    refinements = 0;
    form_M();
    for (Index b = 0; b < k; ++b) {
      std::copy_n(&M_(b, b), k - b, &factor_(b, b));
      factor_(b, b) *= 1 + more;
    }
    if (k > 0 && !partial_cholesky(factor_.topLeftCorner(k, k), 1)) return false;
  }
  for (Index i = 0; i < k; ++i) {
    const double length = factor_.row(i).head(i + 1).squaredNorm();  // the diagonal of M
    if (!(factor_(i, i) * factor_(i, i) > (more > 0 ? 0 : nearly_dependent) * length)) return false;
  }
  return true;
}

}  // namespace altdiff::detail
