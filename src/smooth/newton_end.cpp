#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/watch.hpp"
#include "smooth/newton.hpp"

// After the last step: which point is the solution, and which quadratic program stands for f there.

namespace altdiff::detail {

namespace {
constexpr double same_hessian = 1e-9;  // relative change that hardly matters to derivatives
}

/// (N2) at the columns of X.
void Newton::expand(const std::vector<Index>& instances, const DenseMatrix& X) {
  if (instances.empty()) return;
  const Overtime solved;
  (void)evaluate_(instances, X,
                  {.value = trial_value_, .gradient = gradient_, .hessians = equivalent_->hessians()});
  for (const Index i : instances) {
    const Eigen::Map<const DenseMatrix> H(equivalent_->hessian(i), n_, n_);
    equivalent_->q.col(i) = gradient_.col(i) - H * X.col(i);
  }
}

void Newton::refresh() {
  std::vector<Index> stale;
  for (Index i = 0; i < size_; ++i)
    if (status[at(i)] == Status::Solved && progress_[at(i)].stale) stale.push_back(i);
  expand(stale, point.x);
}

std::vector<Index> Newton::confirm(const std::vector<Index>& instances, const PointBlock& other) {
  for (const Index i : instances)
    diagonal_.col(i) = Eigen::Map<const DenseMatrix>(equivalent_->hessian(i), n_, n_).diagonal();
  expand(instances, other.x);
  std::vector<Index> confirmed;
  std::vector<Index> others;
  for (const Index i : instances) {
    Products& products = products_[0];
    products.compute(instance_of(equivalent_->program, i), 0, other.x.col(i), other.y.col(i), other.z.col(i));
    const Residuals there = residuals_at(
        {.x = other.x.col(i), .y = other.y.col(i), .z = other.z.col(i), .z_box = other.z_box.col(i)}, i,
        products);
    const bool serves = std::isfinite(trial_value_[i]) && there.below(settings_.tolerance) &&
                        change_of_hessian(i) <= same_hessian;
    (serves ? confirmed : others).push_back(i);
    if (!serves) continue;
    point.x.col(i) = other.x.col(i);
    take_multipliers(i, i, other);
    residuals[at(i)] = there;
    value[i] = trial_value_[i];
  }
  expand(others, point.x);
  return confirmed;
}

}  // namespace altdiff::detail
