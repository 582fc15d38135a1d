#include <nanobind/eigen/dense.h>
#include <nanobind/eigen/sparse.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <stdexcept>

#include "bindings.hpp"
#include "problem/checks.hpp"
#include "terms.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

AlternatingSettings settings_from(double rho, double tolerance, const std::string& stopping,
                                  int max_iterations, bool trace, double time_limit) {
  if (stopping != "paper" && stopping != "residual")
    throw std::invalid_argument("stopping must be 'paper' or 'residual', got '" + stopping + "'");
  return {.rho = rho,
          .tolerance = tolerance,
          .stopping = stopping == "paper" ? Stopping::Paper : Stopping::Residual,
          .max_iterations = max_iterations,
          .trace = trace,
          .time_limit = time_limit};
}

template <Matrix M>
Constraints<M> constraints_of(const QuadraticProgram<M>& qp) {
  return {.A = qp.A, .b = qp.b, .G = qp.G, .h = qp.h, .lb = qp.lb, .ub = qp.ub};
}

/// Directions in q and in the constraints; P apart, because not every objective has one.
template <Matrix M>
struct Directions {
  DenseMatrix q{};
  ConstraintTangent<M> constraints{};
};

/// All unit directions of one vector field: the Jacobian with respect to it.
template <Matrix M>
Directions<M> unit_directions(Field field, const QuadraticProgram<M>& qp) {
  Directions<M> unit;
  switch (field) {
    case Field::q:
      unit.q.setIdentity(qp.n(), qp.n());
      break;
    case Field::b:
      unit.constraints.b.setIdentity(qp.p(), qp.p());
      break;
    case Field::h:
      unit.constraints.h.setIdentity(qp.m(), qp.m());
      break;
    case Field::lb:
      unit.constraints.lb.setIdentity(qp.n(), qp.n());
      break;
    case Field::ub:
      unit.constraints.ub.setIdentity(qp.n(), qp.n());
      break;
    default:
      throw std::invalid_argument("wrt must be one of q, b, h, lb, ub; for P, A and G give a tangent");
  }
  return unit;
}

template <Matrix M>
Directions<M> along(const QuadraticProgram<M>& dot) {
  return {.q = dot.q,
          .constraints = {.A = dot.A, .b = dot.b, .G = dot.G, .h = dot.h, .lb = dot.lb, .ub = dot.ub}};
}

/// f(x) = -y'x + sum x log x over the constraints of `qp`, whose q is -y.
template <Matrix M>
struct EntropyProblem {
  QuadraticProgram<M> qp;
};

template <Matrix M>
AlternatingResult differentiate_entropy(const EntropyProblem<M>& problem,
                                        const std::optional<std::string>& wrt,
                                        const std::optional<OptionalFields<M>>& tangent, double rho,
                                        double tolerance, const std::string& stopping, int max_iterations,
                                        bool trace, double time_limit) {
  const AlternatingSettings settings =
      settings_from(rho, tolerance, stopping, max_iterations, trace, time_limit);
  const auto& qp = problem.qp;
  const QuadraticProgram<M> dot = tangent ? program<M>(*tangent) : QuadraticProgram<M>{};
  const auto directions = wrt ? unit_directions(field_named(*wrt), qp) : along(dot);
  const WithoutGil without_gil;
  return alternating_differentiation(Entropy<M>{.q = qp.q}, constraints_of(qp), {.q = directions.q},
                                     directions.constraints, settings);
}

template <Matrix M>
void make_entropy(EntropyProblem<M>* place, const Vector& y, std::optional<M> G, std::optional<Vector> h,
                  std::optional<M> A, std::optional<Vector> b, std::optional<Vector> lb,
                  std::optional<Vector> ub) {
  new (place) EntropyProblem<M>{program<M>({std::nullopt, Vector(-y), std::move(G), std::move(h),
                                            std::move(A), std::move(b), std::move(lb), std::move(ub)})};
}

template <Matrix M>
void bind_entropy_problem(nb::module_& module, const std::string& kind) {
  const auto none = nb::none();
  nb::class_<EntropyProblem<M>>(module, (kind + "EntropyProblem").c_str())
      .def("__init__", &make_entropy<M>, "y"_a, "G"_a = none, "h"_a = none, "A"_a = none, "b"_a = none,
           "lb"_a = none, "ub"_a = none)
      .def("alternating_differentiation", &differentiate_entropy<M>, "wrt"_a = none, "tangent"_a = none,
           "rho"_a = 1.0, "tolerance"_a = 1e-3, "stopping"_a = "paper", "max_iterations"_a = 100000,
           "trace"_a = false, "time_limit"_a = unlimited);
}

/// A sum of terms over the constraints of `qp`, whose q is zero. The arrays of the terms belong to Python.
struct TermProblem {
  QuadraticProgram<DenseMatrix> qp;
  std::vector<Term> terms;
};

void make_term_problem(TermProblem* place, Index n, const std::vector<TermArguments>& terms,
                       std::optional<DenseMatrix> G, std::optional<Vector> h, std::optional<DenseMatrix> A,
                       std::optional<Vector> b, std::optional<Vector> lb, std::optional<Vector> ub) {
  new (place) TermProblem{
      .qp = program<DenseMatrix>({std::nullopt, Vector(Vector::Zero(n)), std::move(G), std::move(h),
                                  std::move(A), std::move(b), std::move(lb), std::move(ub)}),
      .terms = terms_at(terms)};
}

/// All unit directions of a field of a term; `unit` is where they are stored.
std::vector<std::vector<Term>> unit_changes(const TermProblem& problem, const std::pair<int, int>& field,
                                            DenseMatrix& unit) {
  const auto t = static_cast<std::size_t>(field.first);
  const auto f = static_cast<std::size_t>(field.second);
  const auto entries = static_cast<Index>(entries_of(problem.terms.at(t), f, problem.qp.n()));
  unit.setIdentity(entries, entries);
  std::vector<std::vector<Term>> changes;
  for (Index c = 0; c < entries; ++c) {
    changes.emplace_back(problem.terms.size());
    changes.back()[t].*term_fields.at(f) = {.data = unit.data() + c * entries};
  }
  return changes;
}

AlternatingResult differentiate_terms(const TermProblem& problem, const std::optional<std::string>& wrt,
                                      const std::optional<std::pair<int, int>>& wrt_term,
                                      const std::optional<OptionalFields<DenseMatrix>>& tangent, double rho,
                                      double tolerance, const std::string& stopping, int max_iterations,
                                      bool trace, double time_limit) {
  const AlternatingSettings settings =
      settings_from(rho, tolerance, stopping, max_iterations, trace, time_limit);
  const auto& qp = problem.qp;
  const auto dot = tangent ? program<DenseMatrix>(*tangent) : QuadraticProgram<DenseMatrix>{};
  const auto directions = wrt ? unit_directions(field_named(*wrt), qp) : along(dot);
  DenseMatrix unit;
  TermObjective::Tangent dtheta{.q = directions.q};
  if (wrt_term) dtheta.changes = unit_changes(problem, *wrt_term, unit);
  const WithoutGil without_gil;
  return alternating_differentiation(TermObjective(problem.terms, qp.n()), constraints_of(qp), dtheta,
                                     directions.constraints, settings);
}

void bind_term_problem(nb::module_& module) {
  const auto none = nb::none();
  nb::class_<TermProblem>(module, "TermProblem")
      .def("__init__", &make_term_problem, "n"_a, "terms"_a, "G"_a = none, "h"_a = none, "A"_a = none,
           "b"_a = none, "lb"_a = none, "ub"_a = none)
      .def("alternating_differentiation", &differentiate_terms, "wrt"_a = none, "wrt_term"_a = none,
           "tangent"_a = none, "rho"_a = 1.0, "tolerance"_a = 1e-3, "stopping"_a = "paper",
           "max_iterations"_a = 100000, "trace"_a = false, "time_limit"_a = unlimited);
}

template <class Member>
nb::object column(const AlternatingResult& result, Member member) {
  Vector values(static_cast<Index>(result.trace.size()));
  for (Index k = 0; k < values.size(); ++k)
    values[k] = static_cast<double>(result.trace[static_cast<std::size_t>(k)].*member);
  return nb::cast(values);
}

nb::object trace_of(const AlternatingResult& result) {
  if (result.trace.empty()) return nb::none();
  nb::dict trace;
  trace["x_norm"] = column(result, &TraceRow::x_norm);
  trace["jacobian_norm"] = column(result, &TraceRow::jacobian_norm);
  trace["primal_residual"] = column(result, &TraceRow::primal_residual);
  trace["dual_residual"] = column(result, &TraceRow::dual_residual);
  trace["active_rows"] = column(result, &TraceRow::active_rows);
  return trace;
}

}  // namespace

template <Matrix M>
AlternatingResult differentiate(const Problem<M>& problem, const std::optional<std::string>& wrt,
                                const std::optional<OptionalFields<M>>& tangent, double rho, double tolerance,
                                const std::string& stopping, int max_iterations, bool trace,
                                double time_limit) {
  const AlternatingSettings settings =
      settings_from(rho, tolerance, stopping, max_iterations, trace, time_limit);
  const QuadraticProgram<M> qp = detail::normalised(*problem.qp);
  const QuadraticProgram<M> dot = tangent ? program<M>(*tangent) : QuadraticProgram<M>{};
  const auto directions = wrt ? unit_directions(field_named(*wrt), qp) : along(dot);
  const WithoutGil without_gil;
  return alternating_differentiation(Quadratic<M>{.P = qp.P, .q = qp.q}, constraints_of(qp),
                                     {.P = dot.P, .q = directions.q}, directions.constraints, settings);
}

template AlternatingResult differentiate(const Problem<DenseMatrix>&, const std::optional<std::string>&,
                                         const std::optional<OptionalFields<DenseMatrix>>&, double, double,
                                         const std::string&, int, bool, double);
template AlternatingResult differentiate(const Problem<SparseMatrix>&, const std::optional<std::string>&,
                                         const std::optional<OptionalFields<SparseMatrix>>&, double, double,
                                         const std::string&, int, bool, double);

void bind_entropy(nb::module_& module) {
  bind_entropy_problem<DenseMatrix>(module, "Dense");
  bind_entropy_problem<SparseMatrix>(module, "Sparse");
  bind_term_problem(module);
}

void bind_alternating_result(nb::module_& module) {
  nb::class_<AlternatingResult>(module, "AlternatingResult")
      .def_ro("x", &AlternatingResult::x)
      .def_ro("y", &AlternatingResult::y)
      .def_ro("z", &AlternatingResult::z)
      .def_ro("z_box", &AlternatingResult::z_box)
      .def_ro("jacobian", &AlternatingResult::jacobian)
      .def_ro("iterations", &AlternatingResult::iterations)
      .def_ro("converged", &AlternatingResult::converged)
      .def_prop_ro("trace", &trace_of);
}

}  // namespace altdiff::python
