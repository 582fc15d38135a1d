#include <algorithm>
#include <altdiff/own_objective.hpp>
#include <cmath>
#include <limits>

#include "objectives/terms.hpp"
#include "problem/checks.hpp"
#include "smooth/equivalent.hpp"
#include "smooth/first_point.hpp"

namespace altdiff {

namespace detail {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A program of one instance, with its arrays in the order of a batch.
struct OwnProgram {
  RowMatrix A, G;
  Vector b, h, lb, ub;
  SmoothProgram program{};
  SmoothSolution solution{};
};

namespace {

BatchField field_of(const double* data, Index size) { return {.data = size > 0 ? data : nullptr}; }

/// The user's f answers for the one instance that there is.
void answer(const ErasedObjective<DenseMatrix>& f, Index n, const Request& request) {
  const Vector x = Eigen::Map<const Vector>(request.x, n);
  *request.value = f.value(x);
  if (!std::isfinite(*request.value)) return;
  Vector g(n);
  DenseMatrix H;
  f.gradient(x, g);
  f.hessian(x, H);
  require(g.size() == n && H.rows() == n && H.cols() == n,
          "the gradient and the Hessian of f must have n = ", n, " rows");
  Eigen::Map<Vector>(request.gradient, n) = g;
  Eigen::Map<DenseMatrix>(request.hessian, n, n) = H;
}

PointBlock start_of(const ErasedObjective<DenseMatrix>& f, const Point& initial, const BatchProgram& sizes) {
  Point start = filled(initial, sizes.n, sizes.p, sizes.m, " of initial");
  if (initial.x.size() == 0) start.x = f.start();
  return {.x = start.x, .y = start.y, .z = start.z, .z_box = start.z_box};
}

}  // namespace

ObjectiveSolution solve(const ErasedObjective<DenseMatrix>& f, const Constraints<DenseMatrix>& constraints,
                        const Settings& settings, const Point& initial) {
  const Index n = f.start().size();
  check_constraints<DenseMatrix>(constraints.G, constraints.h, constraints.A, constraints.b, constraints.lb,
                                 constraints.ub, n);
  auto own = std::make_shared<OwnProgram>(OwnProgram{.A = constraints.A,
                                                     .G = constraints.G,
                                                     .b = constraints.b,
                                                     .h = constraints.h,
                                                     .lb = constraints.lb,
                                                     .ub = constraints.ub});
  BatchProgram& sizes = own->program.constraints;
  sizes = {.size = 1, .n = n, .m = own->h.size(), .p = own->b.size()};
  sizes[Field::A] = field_of(own->A.data(), own->A.size());
  sizes[Field::b] = field_of(own->b.data(), own->b.size());
  sizes[Field::G] = field_of(own->G.data(), own->G.size());
  sizes[Field::h] = field_of(own->h.data(), own->h.size());
  sizes[Field::lb] = field_of(own->lb.data(), own->lb.size());
  sizes[Field::ub] = field_of(own->ub.data(), own->ub.size());
  own->program.evaluate = [&f, n](const Request& request) { answer(f, n, request); };
  own->program.largest_step = [&f](Index /*instance*/, const Vector& x, const Vector& d) {
    return f.largest_step(x, d);
  };
  own->solution = altdiff::solve(own->program, settings, start_of(f, initial, sizes));
  own->program.evaluate = {};  // they refer to the caller's f
  own->program.largest_step = {};
  ObjectiveSolution solution;
  static_cast<Answer&>(solution) = answer_of(own->solution, 0);
  solution.program = std::move(own);
  return solution;
}

}  // namespace detail

ObjectiveGradient vjp(const ObjectiveSolution& solution, const Point& bar, double objective_bar) {
  detail::require(solution.program != nullptr, "the solution does not come from solve");
  const detail::OwnProgram& own = *solution.program;
  const BatchProgram& sizes = own.program.constraints;
  const Point full = detail::filled(bar, sizes.n, sizes.p, sizes.m, " of bar");
  detail::RowMatrix A = detail::RowMatrix::Zero(own.A.rows(), own.A.cols());
  detail::RowMatrix G = detail::RowMatrix::Zero(own.G.rows(), own.G.cols());
  ObjectiveGradient gradient{.constraints = {.b = Vector::Zero(own.b.size()),
                                             .h = Vector::Zero(own.h.size()),
                                             .lb = Vector::Zero(own.lb.size()),
                                             .ub = Vector::Zero(own.ub.size())},
                             .u = Vector::Zero(sizes.n)};
  SmoothGradient target{.u = gradient.u.data()};
  const auto aim = [&](Field field, double* place) {
    if (sizes[field].data != nullptr) target.constraints[static_cast<std::size_t>(field)] = place;
  };
  aim(Field::A, A.data());
  aim(Field::b, gradient.constraints.b.data());
  aim(Field::G, G.data());
  aim(Field::h, gradient.constraints.h.data());
  aim(Field::lb, gradient.constraints.lb.data());
  aim(Field::ub, gradient.constraints.ub.data());
  vjp(own.program, own.solution,
      {.x = full.x.data(),
       .y = full.y.data(),
       .z = full.z.data(),
       .z_box = full.z_box.data(),
       .objective = &objective_bar},
      target);
  gradient.constraints.A = A;
  gradient.constraints.G = G;
  return gradient;
}

TermObjective::TermObjective(std::vector<Term> terms, Index n, Index instance)
    : terms_(std::move(terms)), n_(n), instance_(instance) {}

Vector TermObjective::start() const {
  std::vector<detail::InstanceTerm> terms;
  terms.reserve(terms_.size());
  for (const Term& term : terms_) terms.emplace_back(term, instance_, n_);
  const detail::FirstPoint first = detail::first_point(terms, {.matrices = {.n = n_}});
  detail::require(first.status == Status::Solved,
                  "the terms of the objective have no point of their domains in common");
  return first.x;
}

double TermObjective::value(const Vector& x) const {
  detail::InstanceTerm::Workspace workspace;
  Vector g = Vector::Zero(n_);
  double sum = 0;
  for (const Term& term : terms_)
    sum += detail::InstanceTerm(term, instance_, n_).add(x.data(), g.data(), nullptr, workspace);
  return sum;
}

double TermObjective::largest_step(const Vector& x, const Vector& d) const {
  detail::InstanceTerm::Workspace workspace;
  double longest = std::numeric_limits<double>::max();
  for (const Term& term : terms_)
    longest = detail::InstanceTerm(term, instance_, n_).largest_step(x, d, longest, workspace);
  return longest;
}

void TermObjective::gradient(const Vector& x, Vector& g) const {
  detail::InstanceTerm::Workspace workspace;
  g.setZero(n_);
  for (const Term& term : terms_)
    (void)detail::InstanceTerm(term, instance_, n_).add(x.data(), g.data(), nullptr, workspace);
}

void TermObjective::hessian(const Vector& x, DenseMatrix& H) const {
  detail::InstanceTerm::Workspace workspace;
  Vector g = Vector::Zero(n_);
  H.setZero(n_, n_);
  for (const Term& term : terms_)
    (void)detail::InstanceTerm(term, instance_, n_).add(x.data(), g.data(), H.data(), workspace);
}

void TermObjective::add_cross(const Vector& x, const Tangent& dtheta, Eigen::Ref<DenseMatrix> block) const {
  detail::InstanceTerm::Workspace workspace;
  Vector change(n_);
  if (dtheta.q.size() > 0) block += dtheta.q;
  for (std::size_t c = 0; c < dtheta.changes.size(); ++c) {
    change.setZero();
    for (std::size_t t = 0; t < dtheta.changes[c].size(); ++t) {
      Term dot = dtheta.changes[c][t];
      dot.kind = terms_[t].kind;
      dot.rows = terms_[t].rows;
      detail::InstanceTerm(terms_[t], instance_, n_)
          .add_cross(x.data(), detail::InstanceTerm(dot, instance_, n_), change.data(), workspace);
    }
    block.col(static_cast<Index>(c)) += change;
  }
}

}  // namespace altdiff
