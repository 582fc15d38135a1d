#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>

#include <array>
#include <cstdint>

#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

using Address = std::uintptr_t;

template <class T>
T* at_address(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// A limit as Python passes it: the number, or the address of many with their strides.
using Limit = std::tuple<double, Address, Index, Index>;

/// A batch as Python knows it: whether its numbers are float32, what is minimised, rows, n, y, limits.
struct BudgetCall {
  bool single;
  bool softmax;
  Index rows, n;
  Address y;
  std::array<Limit, 3> limits;  // lower, upper, total
  int num_threads;

  template <class T>
  [[nodiscard]] BudgetProgram<T> program() const {
    const auto limit = [&](std::size_t i) {
      const auto& [value, address, row_stride, stride] = limits[i];
      return BudgetLimit<T>{.value = static_cast<T>(value),
                            .data = at_address<const T>(address),
                            .row_stride = row_stride,
                            .stride = stride};
    };
    return {.kind = softmax ? Budget::Softmax : Budget::Sparsemax,
            .rows = rows,
            .n = n,
            .y = at_address<const T>(y),
            .lower = limit(0),
            .upper = limit(1),
            .total = limit(2),
            .num_threads = num_threads};
  }
};

/// Calls body(program) in the call's type, without the interpreter.
template <class Body>
auto run(const BudgetCall& call, const Body& body) {
  const WithoutGil without_gil;
  return call.single ? body(call.program<float>()) : body(call.program<double>());
}

Index solve_budget(const BudgetCall& call, Address x, Address states) {
  return run(call, [&]<class T>(const BudgetProgram<T>& program) {
    return solve(program, at_address<T>(x), at_address<BudgetRow>(states));
  });
}

void budget_vjp(const BudgetCall& call, Address x, Address states, Address x_bar,
                const std::array<Address, 4>& targets, double missing) {
  run(call, [&]<class T>(const BudgetProgram<T>& program) {
    vjp(program, at_address<const T>(x), at_address<const BudgetRow>(states), at_address<const T>(x_bar),
        BudgetTangent<T>{.y = at_address<T>(targets[0]),
                         .lower = at_address<T>(targets[1]),
                         .upper = at_address<T>(targets[2]),
                         .total = at_address<T>(targets[3])},
        static_cast<T>(missing));
  });
}

void budget_jvp(const BudgetCall& call, Address x, Address states, const std::array<Address, 4>& dot,
                Address target, double missing) {
  run(call, [&]<class T>(const BudgetProgram<T>& program) {
    jvp(program, at_address<const T>(x), at_address<const BudgetRow>(states),
        BudgetTangent<const T>{.y = at_address<const T>(dot[0]),
                               .lower = at_address<const T>(dot[1]),
                               .upper = at_address<const T>(dot[2]),
                               .total = at_address<const T>(dot[3])},
        at_address<T>(target), static_cast<T>(missing));
  });
}

void budget_shares(const BudgetCall& call, Address x, Address states, Address moving, Address above) {
  run(call, [&]<class T>(const BudgetProgram<T>& program) {
    shares(program, at_address<const T>(x), at_address<const BudgetRow>(states), at_address<T>(moving),
           at_address<T>(above));
  });
}

}  // namespace

void bind_budget(nb::module_& module) {
  nb::class_<BudgetCall>(module, "BudgetCall", "A batch of rows with a budget; arrays go by address")
      .def(
          "__init__",
          [](BudgetCall* place, bool single, bool softmax, Index rows, Index n, Address y, const Limit& lower,
             const Limit& upper, const Limit& total, int num_threads) {
            new (place) BudgetCall{.single = single,
                                   .softmax = softmax,
                                   .rows = rows,
                                   .n = n,
                                   .y = y,
                                   .limits = {lower, upper, total},
                                   .num_threads = num_threads};
          },
          "single"_a, "softmax"_a, "rows"_a, "n"_a, "y"_a, "lower"_a, "upper"_a, "total"_a, "num_threads"_a)
      .def("solve", &solve_budget, "x"_a, "states"_a)
      .def("vjp", &budget_vjp, "x"_a, "states"_a, "x_bar"_a, "targets"_a, "missing"_a)
      .def("jvp", &budget_jvp, "x"_a, "states"_a, "dot"_a, "target"_a, "missing"_a)
      .def("shares", &budget_shares, "x"_a, "states"_a, "moving"_a, "above"_a);
}

}  // namespace altdiff::python
