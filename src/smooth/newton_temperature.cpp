#include <algorithm>
#include <cmath>

#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"
#include "smooth/newton.hpp"

// Where f itself is too hard to begin with: others that lead to it.

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double fall = 8;         // of temperatures at a time
constexpr double most = 1e200;     // of a temperature
constexpr double coldest = 1e-10;  // of barriers, relative to the first

}  // namespace

/// Newton's method may go to and fro across a kink that is narrow beside the way along it, or run along the
/// end of a domain that f hardly keeps it from. With wide kinks and barriers it does neither, and from there
/// both fall step by step. (N14)
bool Newton::heat(Index i) {
  Progress& now = progress_[at(i)];
  if (program_.evaluate || now.heated) return false;
  const std::vector<InstanceTerm>& terms = evaluate_.terms(i);
  const bool domain = std::ranges::any_of(terms, [](const InstanceTerm& t) { return t.domain_rows() > 0; });
  // Where the end of a domain is near, back to where it was not.
  const Vector x = domain ? start_.col(i) : point.x.col(i);
  InstanceTerm::Workspace workspace;
  Vector g = Vector::Zero(n_);
  for (const InstanceTerm& term : terms) (void)term.add(x.data(), g.data(), nullptr, workspace);
  Temperature hottest;
  for (const InstanceTerm& term : terms) {
    const Temperature own = term.hottest(x, norm(g));
    hottest.width = std::max(hottest.width, own.width);
    hottest.barrier = std::max(hottest.barrier, own.barrier);
  }
  if (hottest.width <= fall) hottest.width = 1;
  if (!hottest.hot() || !(std::max(hottest.width, hottest.barrier) < most)) return false;
  now.coldest = coldest * hottest.barrier;
  begin_again(i, x, hottest);
  return true;
}

void Newton::cool(Index i) {
  Progress& now = progress_[at(i)];
  const double barrier = now.temperature.barrier / fall;
  if (now.temperature.barrier > 0) {
    start_.col(i) = point.x.col(i);
    now.last_barrier = now.temperature.barrier;
  }
  begin_again(
      i, point.x.col(i),
      {.width = std::max(1.0, now.temperature.width / fall), .barrier = barrier < now.coldest ? 0 : barrier});
}

/// With another f.
void Newton::begin_again(Index i, const Vector& x, const Temperature& temperature) {
  Progress& now = progress_[at(i)];
  now = {.state = State::First,
         .error = infinity,
         .best = infinity,
         .temperature = temperature,
         .coldest = now.coldest,
         .last_barrier = now.last_barrier,
         .largest_gradient = now.largest_gradient,
         .leans = now.leans,
         .since = steps[at(i)],
         .far = now.far,
         .careful = true,
         .heated = true};
  evaluate_.set_temperature(i, temperature);
  trial_.col(i) = x;
}

/// At the end, whatever its temperature was.
void Newton::show_f_itself(Index i) {
  evaluate_.set_temperature(i, {});
  InstanceTerm::Workspace workspace;
  Vector g = Vector::Zero(n_);
  value[i] = 0;
  for (const InstanceTerm& term : evaluate_.terms(i))
    value[i] += term.add(point.x.data() + i * n_, g.data(), nullptr, workspace);
}

bool Newton::run_hot(Index i) {
  if (!heat(i)) return false;
  for (DenseMatrix* multipliers : {&point.y, &point.z, &point.z_box}) multipliers->col(i).setZero();
  proceed({i});
  return true;
}

}  // namespace altdiff::detail
