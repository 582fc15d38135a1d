#include <nanobind/eigen/dense.h>
#include <nanobind/eigen/sparse.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <vector>

#include "batch/sparse_batch.hpp"
#include "bindings.hpp"
#include "problem/checks.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

using Fields = std::array<Vector, 8>;  // of a matrix the stored entries
using PointFields = std::tuple<Vector, Vector, Vector, Vector>;
using OptionalPoint =
    std::tuple<std::optional<Vector>, std::optional<Vector>, std::optional<Vector>, std::optional<Vector>>;

struct Solved {
  std::shared_ptr<const QuadraticProgram<SparseMatrix>> qp;
  Solution<SparseMatrix> solution;
};

template <Matrix M>
void make_problem(Problem<M>* place, M P, Vector q, std::optional<M> G, std::optional<Vector> h,
                  std::optional<M> A, std::optional<Vector> b, std::optional<Vector> lb,
                  std::optional<Vector> ub) {
  auto qp = std::make_shared<const QuadraticProgram<M>>(
      program<M>({std::move(P), std::move(q), std::move(G), std::move(h), std::move(A), std::move(b),
                  std::move(lb), std::move(ub)}));
  detail::check(*qp);
  new (place) Problem<M>{std::move(qp)};
}

Point point(std::optional<OptionalPoint> fields) {
  if (!fields) return {};
  auto& [x, y, z, z_box] = *fields;
  return {.x = or_empty(std::move(x)),
          .y = or_empty(std::move(y)),
          .z = or_empty(std::move(z)),
          .z_box = or_empty(std::move(z_box))};
}

std::vector<Point> points(std::vector<std::optional<OptionalPoint>> all) {
  std::vector<Point> result;
  result.reserve(all.size());
  for (auto& fields : all) result.push_back(point(std::move(fields)));
  return result;
}

std::vector<Solved> solve_problems(const std::vector<const Problem<SparseMatrix>*>& problems,
                                   const Settings& settings,
                                   std::vector<std::optional<OptionalPoint>> initial) {
  std::vector<const QuadraticProgram<SparseMatrix>*> programs;
  programs.reserve(problems.size());
  for (const auto* problem : problems) programs.push_back(problem->qp.get());
  std::vector<Solution<SparseMatrix>> solutions;
  {
    const std::vector<Point> starts = points(std::move(initial));
    const WithoutGil without_gil;
    solutions = detail::solve_each(programs, settings, starts);
  }
  std::vector<Solved> solved;
  solved.reserve(problems.size());
  for (std::size_t i = 0; i < problems.size(); ++i)
    solved.push_back({.qp = problems[i]->qp, .solution = std::move(solutions[i])});
  return solved;
}

std::vector<Fields> pull_back(const std::vector<const Solved*>& solved,
                              std::vector<std::optional<OptionalPoint>> bars, const Settings& settings) {
  std::vector<const QuadraticProgram<SparseMatrix>*> programs;
  std::vector<const Solution<SparseMatrix>*> solutions;
  programs.reserve(solved.size());
  solutions.reserve(solved.size());
  for (const auto* instance : solved) {
    programs.push_back(instance->qp.get());
    solutions.push_back(&instance->solution);
  }
  const std::vector<Point> cotangents = points(std::move(bars));
  std::vector<Fields> gradients;
  gradients.reserve(solved.size());
  const WithoutGil without_gil;
  for (auto& bar : detail::vjp_each(programs, solutions, cotangents, settings.num_threads))
    gradients.push_back({bar.P.coeffs(), std::move(bar.q), bar.G.coeffs(), std::move(bar.h), bar.A.coeffs(),
                         std::move(bar.b), std::move(bar.lb), std::move(bar.ub)});
  return gradients;
}

PointFields push_forward(const Solved& solved, std::optional<SparseMatrix> P, std::optional<Vector> q,
                         std::optional<SparseMatrix> G, std::optional<Vector> h,
                         std::optional<SparseMatrix> A, std::optional<Vector> b, std::optional<Vector> lb,
                         std::optional<Vector> ub) {
  const WithoutGil without_gil;
  const Point dot = jvp(*solved.qp, solved.solution,
                        program<SparseMatrix>({std::move(P), std::move(q), std::move(G), std::move(h),
                                               std::move(A), std::move(b), std::move(lb), std::move(ub)}));
  return {dot.x, dot.y, dot.z, dot.z_box};
}

template <Matrix M>
void bind_problem(nb::module_& module, const char* name) {
  const auto none = nb::none();
  nb::class_<Problem<M>>(module, name)
      .def("__init__", &make_problem<M>, "P"_a, "q"_a, "G"_a = none, "h"_a = none, "A"_a = none, "b"_a = none,
           "lb"_a = none, "ub"_a = none)
      .def("alternating_differentiation", &differentiate<M>, "wrt"_a = none, "tangent"_a = none,
           "rho"_a = 1.0, "tolerance"_a = 1e-3, "stopping"_a = "paper", "max_iterations"_a = 100000,
           "trace"_a = false, "time_limit"_a = std::numeric_limits<double>::infinity());
}

void bind_sparse_solution(nb::module_& module) {
  const auto none = nb::none();
  nb::class_<Solved>(module, "SparseSolution")
      .def_prop_ro("x", [](const Solved& s) { return s.solution.x; })
      .def_prop_ro("y", [](const Solved& s) { return s.solution.y; })
      .def_prop_ro("z", [](const Solved& s) { return s.solution.z; })
      .def_prop_ro("z_box", [](const Solved& s) { return s.solution.z_box; })
      .def_prop_ro("objective", [](const Solved& s) { return s.solution.objective; })
      .def_prop_ro("status", [](const Solved& s) { return s.solution.status; })
      .def_prop_ro("iterations", [](const Solved& s) { return s.solution.iterations; })
      .def_prop_ro("primal_residual", [](const Solved& s) { return s.solution.primal_residual; })
      .def_prop_ro("dual_residual", [](const Solved& s) { return s.solution.dual_residual; })
      .def_prop_ro("duality_gap", [](const Solved& s) { return s.solution.duality_gap; })
      .def_prop_ro("degenerate", [](const Solved& s) { return s.solution.degenerate; })
      .def_prop_ro("unique", [](const Solved& s) { return s.solution.unique; })
      .def_prop_ro("margin", [](const Solved& s) { return s.solution.margin; })
      .def(
          "differentiable",
          [](const Solved& s, bool unless_solved) {
            const Missing missing{.unless_solved = unless_solved};
            return missing.differentiable(s.solution.linearisation != nullptr, s.solution.status);
          },
          "unless_solved"_a)
      .def_prop_ro("derivative_rounds", [](const Solved& s) { return derivative_rounds(s.solution); })
      .def("jvp", &push_forward, "P"_a = none, "q"_a = none, "G"_a = none, "h"_a = none, "A"_a = none,
           "b"_a = none, "lb"_a = none, "ub"_a = none)
      .def(
          "flat_part",
          [](const Solved& s, const Vector& v) {
            const WithoutGil without_gil;
            return flat_part(s.solution, v);
          },
          "v"_a)
      .def(
          "jacobian",
          [](const Solved& s, const std::string& field) {
            const WithoutGil without_gil;
            return jacobian(*s.qp, s.solution, field_named(field));
          },
          "field"_a);
  module.def("solve_each", &solve_problems, "problems"_a, "settings"_a, "initial"_a);
  module.def("vjp_each", &pull_back, "solutions"_a, "bars"_a, "settings"_a);
}

}  // namespace

void bind_problems(nb::module_& module) {
  bind_problem<DenseMatrix>(module, "DenseProblem");
  bind_problem<SparseMatrix>(module, "SparseProblem");
  bind_sparse_solution(module);
}

}  // namespace altdiff::python
