#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "problem/certificates.hpp"
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
constexpr double hardly_there = 1e-15;  // a gradient that may belong to an f that is flat
constexpr double no_more = 1e-20;       // of how steep it is elsewhere: no digit of f sees that
constexpr double of_x =
    4 * std::numeric_limits<double>::epsilon();  // its rounding, and that of products with it
constexpr double near_an_end = 1e9;              // in roundings
constexpr double much = 1e6;                     // roundings of the merit: a fall that cannot be one
constexpr double hardly_bends = 1e6;
constexpr double of_ingredients = 1e-12;  // a curvature that rounding may have caused, relative
constexpr int few_halvings = 3;           // after more, a step was far too long
constexpr double negligible = 1e-12;      // a push of the diagonal, relative to the gradient
constexpr int most_leans = 3;             // long steps, after which a minimum is doubtful

}  // namespace

/// Those of f. H x and q = grad f - H x, of which the quadratic program's are made, may be enormous where
/// grad f is not. Where the summands of grad f cancel each other, their sizes count; of a function of the
/// user's, whose summands nobody knows, those of H x do, but not beyond the largest gradient on the way.
Residuals Newton::residuals_at(const PointView& v, Index i, const Products& products) const {
  const VectorsView data = instance_of(equivalent_->program, i).vectors();
  const ProductsView parts = products.column(0);
  const Eigen::Map<const DenseMatrix> H(equivalent_->hessian(i), n_, n_);
  const double here = std::max(norm(H.diagonal()), norm(gradient_.col(i)));  // H's largest is on its diagonal
  const double largest = here < hardly_there ? std::max(here, flat(i)) : here;
  const auto with = [&](const VectorView& q, const VectorView& rest) {
    return relative_residuals(
        {.q = q, .b = data.b, .h = data.h, .lb = data.lb, .ub = data.ub}, v,
        {.Px = rest, .Ax = parts.Ax, .Gx = parts.Gx, .Aty = parts.Aty, .Gtz = parts.Gtz}, largest);
  };
  if (program_.evaluate) {
    const double most = progress_[at(i)].largest_gradient;
    const Vector summands = parts.Px.cwiseMax(-most).cwiseMin(most);
    return with(summands, gradient_.col(i) - summands);
  }
  const Residuals plain = with(zero_, gradient_.col(i));
  const bool falls = plain.worst() < 0.5 * progress_[at(i)].best;
  const bool far = !(std::max(plain.primal, plain.dual) <= nearly) && progress_[at(i)].descended;
  if (plain.below(exact) || far || falls) return plain;
  Vector summands = Vector::Zero(n_);
  for (const InstanceTerm& term : evaluate_.terms(i)) term.add_summands(v.x, summands);
  for (Index j = 0; j < n_; ++j) summands[j] = std::copysign(summands[j], v.x[j]);
  return with(summands, without_rounding(v, i, parts) - summands);
}

/// A gradient that is nothing beside those elsewhere: on the way, or anywhere.
double Newton::flat(Index i) const {
  double steepest = progress_[at(i)].largest_gradient;
  for (const InstanceTerm& term : evaluate_.terms(i)) steepest = std::max(steepest, term.steepest());
  return no_more * steepest;
}

/// The gradient without what rounding x does to it: no x in double precision has a better one. Terms near the
/// end of their domain do not take part: there that would be anything, and t beside x is known better (N11).
/// (N15)
Vector Newton::without_rounding(const PointView& v, Index i, const ProductsView& parts) const {
  InstanceTerm::Workspace workspace;
  Vector none = Vector::Zero(n_);
  DenseMatrix H = DenseMatrix::Zero(n_, n_);
  for (const InstanceTerm& term : evaluate_.terms(i))
    if (!term.hidden_by_rounding(v.x, near_an_end))
      (void)term.add(v.x.data(), none.data(), H.data(), workspace);
  const Vector digits = of_x * (H.cwiseAbs() * v.x.cwiseAbs());
  const Vector residual = gradient_.col(i) + parts.Aty + parts.Gtz + v.z_box;
  return gradient_.col(i) - residual.cwiseMax(-digits).cwiseMin(digits);
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
    const auto ray = find_ray(evaluate_.terms(i), instance_of(program_.constraints, i), point.x.col(i));
    if (ray.has_value()) declare_endless(i, ray->d, ray->endless);
  }
}

void Newton::declare_endless(Index i, const Vector& ray, bool to_infinity) {
  point.x.col(i) = ray;
  for (DenseMatrix* multipliers : {&point.y, &point.z, &point.z_box}) multipliers->col(i).setConstant(nan);
  if (to_infinity) value[i] = -infinity;
  end(i, Status::DualInfeasible);
}

/// A Hessian that hardly bends over a million times the size of x says nothing of where a step should end,
/// and the quadratic program is better conditioned with one that does.
void Newton::keep_within_reach(Index i) {
  Progress& now = progress_[at(i)];
  if (now.far && program_.evaluate) {  // what lies ahead, the quadratic program must say
    now.sigma = 0;
    return;
  }
  const Eigen::Map<const DenseMatrix> H(equivalent_->hessian(i), n_, n_);
  if (hardly_bends * H(0, 0) >= now.largest_gradient) return;  // of most, one number tells
  const double slope = norm(gradient_.col(i));
  const double size = 1 + norm(point.x.col(i));
  if (H.diagonal().minCoeff() >= 0 && hardly_bends * H.diagonal().maxCoeff() * size < slope)
    now.sigma = std::max(now.sigma, slope / (long_step * size));
}

/// Whether f has a direction of negative curvature. The terms are convex but for a P that is not: of their
/// Hessian, a sum of squares, rounding alone is negative. Of a function of the user's, rounding is what that
/// does to the largest Hessian on the way, or to f itself over the size of x: where a softmax has chosen, the
/// Hessian is less than the rounding of what it was made of. (N16)
bool Newton::curves_down(Index i) const {
  const Progress& now = progress_[at(i)];
  if (!program_.evaluate) {
    DenseMatrix P = DenseMatrix::Zero(n_, n_);
    for (const InstanceTerm& term : evaluate_.terms(i))
      if (term.P() != nullptr) P += Eigen::Map<const DenseMatrix>(term.P(), n_, n_);
    return curvature_of<DenseMatrix>(0.5 * (P + P.transpose())) != Curvature::Positive;
  }
  const double size = 1 + norm(point.x.col(i));
  const double of_f = now.noise / rounding_of_f / (size * size) + norm(gradient_.col(i)) / size;
  DenseMatrix H = Eigen::Map<const DenseMatrix>(equivalent_->hessian(i), n_, n_);
  H.diagonal().array() += of_ingredients * std::max(now.largest_hessian, of_f) - now.added;
  return curvature_of(H) == Curvature::Negative;
}

/// sigma I on top of the Hessian, as far as it is not there yet: x - x_k stays short. (N13)
void Newton::add_diagonal(Index i) {
  Progress& now = progress_[at(i)];
  const double more = now.sigma - now.added;
  if (more == 0) return;
  now.added = now.sigma;
  Eigen::Map<DenseMatrix>(equivalent_->hessian(i), n_, n_).diagonal().array() += more;
  equivalent_->q.col(i) -= more * point.x.col(i);
}

/// After a step that had to be cut, sigma is what would have led as far by itself, along a line with the
/// slope that was found; whole steps bring it down again. (N13)
void Newton::adapt_diagonal(Progress& now) {
  now.added = 0;
  const bool by_rounding = -now.slope <= much * (now.noise + now.nu * now.rounding);
  if (now.halvings >= few_halvings && !by_rounding) {
    now.sigma = std::max(10 * now.sigma, -now.slope / (2 * now.length * now.distance * now.distance));
    if (!std::isfinite(now.sigma)) now.sigma = 0;
  } else if (now.halvings == 0) {
    now.sigma *= 0.1;
    if (now.sigma * now.distance <= negligible * now.largest_gradient) now.sigma = 0;
  }
}

/// The quadratic program has no solution, falling along a ray perhaps, and f may have one all the same: it is
/// solved again, with a diagonal that allows a long step.
void Newton::lean(Index i, const Vector& ray, Status why) {
  Progress& now = progress_[at(i)];
  const double size = norm(point.x.col(i));
  const bool falls = why == Status::DualInfeasible;
  if (falls) now.doubtful = ++now.leans == most_leans;
  if (falls && size > endless && program_.evaluate) {
    declare_endless(i, ray, true);
    return;
  }
  const double first = (norm(gradient_.col(i)) + tiny) / (long_step * (1 + size));
  now.sigma = now.added > 0 ? 100 * now.added : std::max(now.sigma, first);
  if (now.sigma > 1e100) {
    if (hot(i))
      cool(i);
    else
      end(i, why == Status::NonConvex ? Status::NumericalError : why);  // f is convex
    return;
  }
  add_diagonal(i);
}

}  // namespace altdiff::detail
