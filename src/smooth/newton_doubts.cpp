#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "smooth/newton.hpp"
#include "smooth/recession.hpp"

// What Newton's method asks beside its steps: how good a point is, and whether there is a minimum at all.

namespace altdiff::detail {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double rounding_of_f = 1e-14;  // of f, relative to its parts
constexpr double exact = 1e-13;          // a residual that a step could hardly lower
constexpr double nearly = 1e-4;          // a residual that may be one of rounding
constexpr double endless = 1e12;         // a point that is so far away is on its way to infinity
constexpr double long_step = 1e3;        // relative to the point, where the quadratic program has no end
constexpr double tiny = 1e-100;
constexpr int most_leans = 3;  // long steps, after which a minimum is doubtful

}  // namespace

/// Those of f. H x and q = grad f - H x, of which the quadratic program's are made, may be enormous where
/// grad f is not. Where the summands of grad f cancel each other, their sizes count; of a function of the
/// user's, whose summands nobody knows, those of H x do, but not beyond the largest gradient on the way.
Residuals Newton::residuals_at_trial(Index i, const Products& products) const {
  const VectorsView data = instance_of(equivalent_->program, i).vectors();
  const ProductsView parts = products.column(0);
  const double largest =
      std::max(norm(Eigen::Map<const Vector>(equivalent_->hessian(i), n_ * n_)), norm(gradient_.col(i)));
  const auto with = [&](const VectorView& q, const VectorView& rest) {
    return relative_residuals(
        {.q = q, .b = data.b, .h = data.h, .lb = data.lb, .ub = data.ub},
        {.x = trial_.col(i), .y = point.y.col(i), .z = point.z.col(i), .z_box = point.z_box.col(i)},
        {.Px = rest, .Ax = parts.Ax, .Gx = parts.Gx, .Aty = parts.Aty, .Gtz = parts.Gtz}, largest);
  };
  if (program_.evaluate) {
    const double most = progress_[at(i)].largest_gradient;
    const Vector summands = parts.Px.cwiseMax(-most).cwiseMin(most);
    return with(summands, gradient_.col(i) - summands);
  }
  const Residuals plain = with(zero_, gradient_.col(i));
  const bool falls = plain.worst() < 0.5 * progress_[at(i)].best;
  if (plain.below(exact) || !plain.below(nearly) || falls) return plain;
  Vector summands = Vector::Zero(n_);
  for (const InstanceTerm& term : evaluate_.terms(i)) term.add_summands(trial_.col(i), summands);
  for (Index j = 0; j < n_; ++j) summands[j] = std::copysign(summands[j], trial_(j, i));
  return with(summands, gradient_.col(i) - summands);
}

/// How far that of f is from the Hessian of the last quadratic program, relative to it, by its diagonal.
double Newton::change_of_hessian(Index i) const {
  const Eigen::Map<const DenseMatrix> H(equivalent_->hessian(i), n_, n_);
  const double least = rounding_of_f * norm(diagonal_.col(i)) + std::numeric_limits<double>::min();
  double change = 0;
  for (Index j = 0; j < n_; ++j)
    change = std::max(change, std::abs(H(j, j) - diagonal_(j, i)) / (std::abs(H(j, j)) + least));
  return change;
}

void Newton::dismiss(const std::vector<Index>& instances) {
  for (const Index i : instances) {
    Progress& now = progress_[at(i)];
    if (!now.doubtful || program_.evaluate) continue;
    now.doubtful = false;
    Settings settings = settings_;
    settings.time_limit = deadline_.rest();
    const auto ray =
        find_ray(evaluate_.terms(i), instance_of(program_.constraints, i), settings, point.x.col(i));
    if (ray.has_value()) declare_endless(i, ray->d, ray->endless);
  }
}

void Newton::declare_endless(Index i, const Vector& ray, bool to_infinity) {
  point.x.col(i) = ray;
  for (DenseMatrix* multipliers : {&point.y, &point.z, &point.z_box}) multipliers->col(i).setConstant(nan);
  if (to_infinity) value[i] = -infinity;
  end(i, Status::DualInfeasible);
}

/// The quadratic program falls without end along a ray, f perhaps not: it is solved again, with a diagonal
/// that allows a long step.
void Newton::lean(Index i, const Vector& ray) {
  Progress& now = progress_[at(i)];
  const double size = norm(point.x.col(i));
  now.doubtful = ++now.leans == most_leans;
  if (size > endless || now.sigma > 1e100) {
    declare_endless(i, ray, true);
    return;
  }
  const double more =
      now.sigma > 0 ? 99 * now.sigma : (norm(gradient_.col(i)) + tiny) / (long_step * (1 + size));
  now.sigma += more;
  Eigen::Map<DenseMatrix>(equivalent_->hessian(i), n_, n_).diagonal().array() += more;
  equivalent_->q.col(i) -= more * point.x.col(i);
}

}  // namespace altdiff::detail
