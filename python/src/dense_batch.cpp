#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <vector>

#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

// Arrays come as addresses of float64 numbers in C order: what Python knows about them (their shapes, that they live
// long enough) it has checked, and an address is ten times faster to pass than an array. Zero: absent.
using Address = std::uintptr_t;
template <std::size_t count>
using Addresses = std::array<Address, count>;

static_assert(sizeof(Index) == sizeof(std::int64_t));

template <class T = double>
T* at_address(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// A new array of numpy's, with memory of its own.
template <class T, class Source>
nb::object copied(const Source* source, std::initializer_list<std::size_t> shape) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size *= extent;
  auto* data = new T[std::max<std::size_t>(size, 1)];
  const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  std::transform(source, source + size, data, [](Source value) { return static_cast<T>(value); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

BatchProgram program_at(Index size, Index n, Index m, Index p, const Addresses<8>& fields,
                        const std::array<Index, 8>& counts, const Addresses<8>& which) {
  BatchProgram program{.size = size, .n = n, .m = m, .p = p};
  for (std::size_t f = 0; f < fields.size(); ++f)
    program.fields[f] = {.data = at_address<const double>(fields[f]),
                         .count = counts[f],
                         .which = at_address<const Index>(which[f])};
  return program;
}

struct DenseBatch {
  BatchProgram program;
  BatchSolution solution;
};

PointBlock start(const BatchProgram& program, const std::optional<Addresses<4>>& initial) {
  if (!initial) return {};
  const auto block = [&](std::size_t part, Index rows) {
    return DenseMatrix(Eigen::Map<const DenseMatrix>(at_address<const double>((*initial)[part]), rows, program.size));
  };
  return {.x = block(0, program.n), .y = block(1, program.p), .z = block(2, program.m), .z_box = block(3, program.n)};
}

DenseBatch* solve_dense(Index size, Index n, Index m, Index p, const Addresses<8>& fields,
                        const std::array<Index, 8>& counts, const Addresses<8>& which, const Settings& settings,
                        const std::optional<Addresses<4>>& initial) {
  auto batch = std::make_unique<DenseBatch>();
  batch->program = program_at(size, n, m, p, fields, counts, which);
  {
    const nb::gil_scoped_release no_gil;
    batch->solution = solve(batch->program, settings, start(batch->program, initial));
  }
  return batch.release();
}

nb::object part(const DenseBatch& batch, int index) {
  const PointBlock& point = batch.solution.point;
  const std::array parts{&point.x, &point.y, &point.z, &point.z_box};
  const DenseMatrix& block = *parts.at(static_cast<std::size_t>(index));
  return copied<double>(block.data(),
                        {static_cast<std::size_t>(block.cols()), static_cast<std::size_t>(block.rows())});
}

nb::dict report(const DenseBatch& batch) {
  const BatchSolution& solution = batch.solution;
  const std::size_t size = solution.status.size();
  nb::dict result;
  result["objective"] = copied<double>(solution.objective.data(), {size});
  result["status"] = copied<std::int64_t>(solution.status.data(), {size});
  result["iterations"] = copied<std::int64_t>(solution.iterations.data(), {size});
  result["primal_residual"] = copied<double>(solution.primal_residual.data(), {size});
  result["dual_residual"] = copied<double>(solution.dual_residual.data(), {size});
  result["duality_gap"] = copied<double>(solution.duality_gap.data(), {size});
  result["degenerate"] = copied<bool>(solution.degenerate.data(), {size});
  result["unique"] = copied<bool>(solution.unique.data(), {size});
  result["margin"] = copied<double>(solution.margin.data(), {size});
  return result;
}

bool all_solved(const DenseBatch& batch) {
  return std::ranges::all_of(batch.solution.status, [](Status status) { return status == Status::Solved; });
}

void pull_back(const DenseBatch& batch, const Addresses<5>& bars, const Addresses<8>& gradients, double missing,
               bool unless_solved, int num_threads) {
  BatchGradient targets{};
  std::ranges::transform(gradients, targets.begin(), &at_address<double>);
  const nb::gil_scoped_release no_gil;
  vjp(batch.program, batch.solution,
      {.x = at_address(bars[0]),
       .y = at_address(bars[1]),
       .z = at_address(bars[2]),
       .z_box = at_address(bars[3]),
       .objective = at_address(bars[4])},
      targets, {.value = missing, .unless_solved = unless_solved}, num_threads);
}

void push_forward(const DenseBatch& batch, const Addresses<8>& tangents, const std::array<Index, 8>& counts,
                  const Addresses<4>& targets, double missing, bool unless_solved, int num_threads) {
  const BatchProgram& program = batch.program;
  const BatchProgram dot = program_at(program.size, program.n, program.m, program.p, tangents, counts, {});
  const nb::gil_scoped_release no_gil;
  const PointBlock t =
      jvp(program, batch.solution, dot, {.value = missing, .unless_solved = unless_solved}, num_threads);
  const std::array parts{&t.x, &t.y, &t.z, &t.z_box};
  for (std::size_t i = 0; i < parts.size(); ++i)
    std::copy_n(parts[i]->data(), parts[i]->size(), at_address(targets[i]));
}

void write_jacobian(const DenseBatch& batch, const std::string& field, Address target, double missing,
                    bool unless_solved, int num_threads) {
  const nb::gil_scoped_release no_gil;
  std::ranges::copy(jacobian(batch.program, batch.solution, field_named(field),
                             {.value = missing, .unless_solved = unless_solved}, num_threads),
                    at_address(target));
}

}  // namespace

void bind_dense_batch(nb::module_& module) {
  nb::class_<DenseBatch>(module, "DenseBatch", "A solved batch of dense programs")
      .def("part", &part, "index"_a)
      .def_prop_ro("report", &report)
      .def_prop_ro("all_solved", &all_solved)
      .def("vjp", &pull_back, "bars"_a, "gradients"_a, "missing"_a, "unless_solved"_a, "num_threads"_a)
      .def("jvp", &push_forward, "tangents"_a, "counts"_a, "targets"_a, "missing"_a, "unless_solved"_a,
           "num_threads"_a)
      .def("jacobian", &write_jacobian, "field"_a, "target"_a, "missing"_a, "unless_solved"_a, "num_threads"_a);
  module.def("solve_dense", &solve_dense, "size"_a, "n"_a, "m"_a, "p"_a, "fields"_a, "counts"_a, "which"_a,
             "settings"_a, "initial"_a = nb::none());
}

}  // namespace altdiff::python
