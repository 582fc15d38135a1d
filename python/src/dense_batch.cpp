#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Fields = std::array<std::optional<Numbers>, 8>;
using FieldPlaces = std::array<std::optional<Places>, 8>;
using PointArrays = std::array<Numbers, 4>;
static_assert(sizeof(Index) == sizeof(std::int64_t));

/// A new array of numpy's, with memory of its own.
template <class T>
struct NewArray {
  T* data;
  nb::object array;

  explicit NewArray(std::initializer_list<std::size_t> shape) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    data = new T[std::max<std::size_t>(size, 1)];
    const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    array = nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
  }
};

template <class T, class Source>
nb::object copied(const Source* source, std::initializer_list<std::size_t> shape) {
  NewArray<T> target(shape);
  std::size_t size = 1;
  for (const std::size_t extent : shape) size *= extent;
  std::transform(source, source + size, target.data, [](Source value) { return static_cast<T>(value); });
  return target.array;
}

std::size_t size_of(Index extent) { return static_cast<std::size_t>(extent); }

/// How many numbers one array of a field holds.
Index entries(const BatchProgram& program, Field field) {
  switch (field) {
    case Field::P:
      return program.n * program.n;
    case Field::G:
      return program.m * program.n;
    case Field::A:
      return program.p * program.n;
    case Field::h:
      return program.m;
    case Field::b:
      return program.p;
    default:
      return program.n;
  }
}

/// A batch's data in numpy's arrays, which it keeps alive.
struct Arrays {
  BatchProgram program{};
  Fields fields{};
  FieldPlaces which{};

  Arrays(Index size, Index n, Index m, Index p, Fields arrays, FieldPlaces places)
      : program{.size = size, .n = n, .m = m, .p = p}, fields(std::move(arrays)), which(std::move(places)) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (!fields[f]) continue;
      const auto field = static_cast<Field>(f);
      program[field].data = fields[f]->data();
      program[field].count = static_cast<Index>(fields[f]->size()) / entries(program, field);
      if (which[f]) program[field].which = which[f]->data();
    }
  }
};

struct DenseBatch {
  Arrays data;
  BatchSolution solution;
};

PointBlock start(const BatchProgram& program, const std::optional<PointArrays>& initial) {
  if (!initial) return {};
  const auto block = [&](std::size_t part, Index rows) {
    return DenseMatrix(Eigen::Map<const DenseMatrix>((*initial)[part].data(), rows, program.size));
  };
  return {.x = block(0, program.n), .y = block(1, program.p), .z = block(2, program.m), .z_box = block(3, program.n)};
}

DenseBatch* solve_dense(Index size, Index n, Index m, Index p, Fields fields, FieldPlaces which,
                        const Settings& settings, const std::optional<PointArrays>& initial) {
  auto batch = std::make_unique<DenseBatch>(Arrays(size, n, m, p, std::move(fields), std::move(which)));
  {
    const nb::gil_scoped_release no_gil;
    batch->solution = solve(batch->data.program, settings, start(batch->data.program, initial));
  }
  return batch.release();
}

nb::tuple point_arrays(const PointBlock& point) {
  const auto array = [](const DenseMatrix& block) {
    return copied<double>(block.data(), {size_of(block.cols()), size_of(block.rows())});
  };
  return nb::make_tuple(array(point.x), array(point.y), array(point.z), array(point.z_box));
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

const double* data_of(const std::optional<Numbers>& array) { return array ? array->data() : nullptr; }

nb::tuple pull_back(const DenseBatch& batch, const std::array<std::optional<Numbers>, 5>& bars,
                    const std::array<bool, 8>& wanted, double missing, bool unless_solved, int num_threads) {
  const BatchProgram& program = batch.data.program;
  BatchGradient targets{};
  std::array<nb::object, 8> arrays;
  for (std::size_t f = 0; f < targets.size(); ++f) {
    const auto field = static_cast<Field>(f);
    if (!wanted[f] || program[field].data == nullptr) continue;
    NewArray<double> target({size_of(program[field].count * entries(program, field))});
    targets[f] = target.data;
    arrays[f] = target.array;
  }
  {
    const nb::gil_scoped_release no_gil;
    vjp(program, batch.solution,
        {.x = data_of(bars[0]),
         .y = data_of(bars[1]),
         .z = data_of(bars[2]),
         .z_box = data_of(bars[3]),
         .objective = data_of(bars[4])},
        targets, {.value = missing, .unless_solved = unless_solved}, num_threads);
  }
  nb::list result;
  for (auto& array : arrays) result.append(array.is_valid() ? array : nb::none());
  return nb::tuple(result);
}

nb::tuple push_forward(const DenseBatch& batch, Fields tangents, FieldPlaces which, double missing,
                       bool unless_solved, int num_threads) {
  const BatchProgram& program = batch.data.program;
  const Arrays dot(program.size, program.n, program.m, program.p, std::move(tangents), std::move(which));
  PointBlock t;
  {
    const nb::gil_scoped_release no_gil;
    t = jvp(program, batch.solution, dot.program, {.value = missing, .unless_solved = unless_solved}, num_threads);
  }
  return point_arrays(t);
}

nb::object jacobian_of(const DenseBatch& batch, const std::string& name, double missing, bool unless_solved,
                       int num_threads) {
  const Field field = field_named(name);
  const BatchProgram& program = batch.data.program;
  std::vector<double> numbers;
  {
    const nb::gil_scoped_release no_gil;
    numbers = jacobian(program, batch.solution, field, {.value = missing, .unless_solved = unless_solved},
                       num_threads);
  }
  return copied<double>(numbers.data(),
                        {size_of(program.size), size_of(program.n), size_of(entries(program, field))});
}

}  // namespace

void bind_dense_batch(nb::module_& module) {
  nb::class_<DenseBatch>(module, "DenseBatch", "A solved batch of dense programs")
      .def_prop_ro("point", [](const DenseBatch& batch) { return point_arrays(batch.solution.point); })
      .def_prop_ro("report", &report)
      .def_prop_ro("all_solved", &all_solved)
      .def("vjp", &pull_back, "bars"_a, "wanted"_a, "missing"_a, "unless_solved"_a, "num_threads"_a)
      .def("jvp", &push_forward, "tangents"_a, "which"_a, "missing"_a, "unless_solved"_a, "num_threads"_a)
      .def("jacobian", &jacobian_of, "field"_a, "missing"_a, "unless_solved"_a, "num_threads"_a);
  module.def("solve_dense", &solve_dense, "size"_a, "n"_a, "m"_a, "p"_a, "fields"_a, "which"_a, "settings"_a,
             "initial"_a = nb::none());
}

}  // namespace altdiff::python
