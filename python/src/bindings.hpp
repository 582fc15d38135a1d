#pragma once

#include <nanobind/nanobind.h>

#include <altdiff/altdiff.hpp>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace altdiff::python {

void bind_problems(nanobind::module_& module);
void bind_dense_batch(nanobind::module_& module);
void bind_tensors(nanobind::module_& module);
void bind_smooth(nanobind::module_& module);
void bind_smooth_tensors(nanobind::module_& module);
void bind_entropy(nanobind::module_& module);
void bind_budget(nanobind::module_& module);
void bind_alternating_result(nanobind::module_& module);

/// Lets Ctrl-C end a long call.
void check_signals();

/// While it is alive, Python's other threads may run, and Ctrl-C ends whatever the core is asked to do.
struct WithoutGil {
  nanobind::gil_scoped_release no_gil{};
  Watch watch{&check_signals};
};

/// A field by its name in the interface; an unknown name is a ValueError that lists the right ones.
[[nodiscard]] Field field_named(const std::string& name);

/// Python's problem object: the data, immutable.
template <Matrix M>
struct Problem {
  std::shared_ptr<const QuadraticProgram<M>> qp;
};

template <class T>
T or_empty(std::optional<T> value) {
  return value ? std::move(*value) : T{};
}

/// The eight fields as Python passes them; None is absent.
template <Matrix M>
using OptionalFields =
    std::tuple<std::optional<M>, std::optional<Vector>, std::optional<M>, std::optional<Vector>,
               std::optional<M>, std::optional<Vector>, std::optional<Vector>, std::optional<Vector>>;

template <Matrix M>
QuadraticProgram<M> program(OptionalFields<M> fields) {
  auto& [P, q, G, h, A, b, lb, ub] = fields;
  return {.P = or_empty(std::move(P)),
          .q = or_empty(std::move(q)),
          .G = or_empty(std::move(G)),
          .h = or_empty(std::move(h)),
          .A = or_empty(std::move(A)),
          .b = or_empty(std::move(b)),
          .lb = or_empty(std::move(lb)),
          .ub = or_empty(std::move(ub))};
}

/// Algorithm 1 for the program: the Jacobian with respect to the field `wrt`, or the derivative along
/// `tangent`.
template <Matrix M>
[[nodiscard]] AlternatingResult differentiate(const Problem<M>& problem,
                                              const std::optional<std::string>& wrt,
                                              const std::optional<OptionalFields<M>>& tangent, double rho,
                                              double tolerance, const std::string& stopping,
                                              int max_iterations, bool trace, double time_limit);

extern template AlternatingResult differentiate(const Problem<DenseMatrix>&,
                                                const std::optional<std::string>&,
                                                const std::optional<OptionalFields<DenseMatrix>>&, double,
                                                double, const std::string&, int, bool, double);
extern template AlternatingResult differentiate(const Problem<SparseMatrix>&,
                                                const std::optional<std::string>&,
                                                const std::optional<OptionalFields<SparseMatrix>>&, double,
                                                double, const std::string&, int, bool, double);

}  // namespace altdiff::python
