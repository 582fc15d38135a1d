#include "dense_batch.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "addresses.hpp"
#include "bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

template <class T, class Source>
nb::object copied(const Source* source, std::size_t size) {
  auto* data = new T[std::max<std::size_t>(size, 1)];
  const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  std::transform(source, source + size, data, [](Source value) { return static_cast<T>(value); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, {size}, owner));
}

}  // namespace

Shape shape_of(const BatchProgram& program, Field field, bool batched) {
  const auto n = static_cast<std::size_t>(program.n);
  const auto m = static_cast<std::size_t>(program.m);
  const auto p = static_cast<std::size_t>(program.p);
  Shape shape;
  if (batched) shape.push_back(static_cast<std::size_t>(program[field].count));
  if (field == Field::P) shape.insert(shape.end(), {n, n});
  if (field == Field::G) shape.insert(shape.end(), {m, n});
  if (field == Field::A) shape.insert(shape.end(), {p, n});
  if (field == Field::h) shape.push_back(m);
  if (field == Field::b) shape.push_back(p);
  if (field == Field::q || field == Field::lb || field == Field::ub) shape.push_back(n);
  return shape;
}

BatchProgram program_at(Index size, Index n, Index m, Index p, const Addresses<8>& fields,
                        const std::array<Index, 8>& counts, const Addresses<8>& which) {
  BatchProgram program{.size = size, .n = n, .m = m, .p = p};
  for (std::size_t f = 0; f < fields.size(); ++f)
    program.fields[f] = field_at(fields[f], counts[f], which[f]);
  return program;
}

PointBlock start_at(const BatchProgram& program, const std::optional<Addresses<4>>& initial) {
  if (!initial) return {};
  const auto block = [&](std::size_t part, Index rows) {
    return DenseMatrix(
        Eigen::Map<const DenseMatrix>(at_address<const double>((*initial)[part]), rows, program.size));
  };
  return {.x = block(0, program.n),
          .y = block(1, program.p),
          .z = block(2, program.m),
          .z_box = block(3, program.n)};
}

nb::dict report_of(const BatchSolution& solution) {
  const std::size_t size = solution.status.size();
  nb::dict result;
  result["objective"] = copied<double>(solution.objective.data(), size);
  result["status"] = copied<std::int64_t>(solution.status.data(), size);
  result["iterations"] = copied<std::int64_t>(solution.iterations.data(), size);
  result["primal_residual"] = copied<double>(solution.primal_residual.data(), size);
  result["dual_residual"] = copied<double>(solution.dual_residual.data(), size);
  result["duality_gap"] = copied<double>(solution.duality_gap.data(), size);
  result["degenerate"] = copied<bool>(solution.degenerate.data(), size);
  result["unique"] = copied<bool>(solution.unique.data(), size);
  result["margin"] = copied<double>(solution.margin.data(), size);
  return result;
}

namespace {

nb::dict report(const DenseBatch& batch) { return report_of(batch.solution); }

DenseBatch* solve_dense(Index size, Index n, Index m, Index p, const Addresses<8>& fields,
                        const std::array<Index, 8>& counts, const Addresses<8>& which,
                        const Settings& settings, const std::optional<Addresses<4>>& initial) {
  auto batch = std::make_unique<DenseBatch>(program_at(size, n, m, p, fields, counts, which), BatchSolution{},
                                            settings.num_threads);
  {
    const WithoutGil without_gil;
    batch->solution = solve(batch->program, settings, start_at(batch->program, initial));
  }
  return batch.release();
}

/// Gradients of the fields in `wanted`, in order; those in `batched` with a leading dimension.
nb::list pull_back(const DenseBatch& batch, const Addresses<5>& bars, const std::vector<int>& wanted,
                   const std::array<bool, 8>& batched, double missing, bool unless_solved) {
  BatchGradient targets{};
  nb::list arrays;
  for (const int f : wanted) {
    const auto place = static_cast<std::size_t>(f);
    const NewArray target(shape_of(batch.program, static_cast<Field>(f), batched.at(place)));
    targets.at(place) = target.data;
    arrays.append(target.array);
  }
  const WithoutGil without_gil;
  vjp(batch.program, batch.solution, cotangent_at(bars), targets,
      {.value = missing, .unless_solved = unless_solved}, batch.num_threads);
  return arrays;
}

void push_forward(const DenseBatch& batch, const Addresses<8>& tangents, const std::array<Index, 8>& counts,
                  const Addresses<4>& targets, double missing, bool unless_solved) {
  const BatchProgram& program = batch.program;
  const BatchProgram dot = program_at(program.size, program.n, program.m, program.p, tangents, counts, {});
  const WithoutGil without_gil;
  const PointBlock t = jvp(program, batch.solution, dot, {.value = missing, .unless_solved = unless_solved},
                           batch.num_threads);
  const std::array parts{&t.x, &t.y, &t.z, &t.z_box};
  for (std::size_t i = 0; i < parts.size(); ++i)
    std::copy_n(parts[i]->data(), parts[i]->size(), at_address(targets[i]));
}

void write_jacobian(const DenseBatch& batch, const std::string& field, Address target, double missing,
                    bool unless_solved) {
  const WithoutGil without_gil;
  std::ranges::copy(jacobian(batch.program, batch.solution, field_named(field),
                             {.value = missing, .unless_solved = unless_solved}, batch.num_threads),
                    at_address(target));
}

}  // namespace

void bind_dense_batch(nb::module_& module) {
  nb::class_<DenseBatch>(module, "DenseBatch", "A solved batch of dense programs")
      .def("part", &part<DenseBatch>, "index"_a, "batched"_a)
      .def_prop_ro("report", &report)
      .def_prop_ro("all_solved", &DenseBatch::all_solved)
      .def("flat_part", &write_flat_part<DenseBatch>, "source"_a, "target"_a, "unless_solved"_a)
      .def("vjp", &pull_back, "bars"_a, "wanted"_a, "batched"_a, "missing"_a, "unless_solved"_a)
      .def("jvp", &push_forward, "tangents"_a, "counts"_a, "targets"_a, "missing"_a, "unless_solved"_a)
      .def("jacobian", &write_jacobian, "field"_a, "target"_a, "missing"_a, "unless_solved"_a);
  module.def("solve_dense", &solve_dense, "size"_a, "n"_a, "m"_a, "p"_a, "fields"_a, "counts"_a, "which"_a,
             "settings"_a, "initial"_a = nb::none());
}

}  // namespace altdiff::python
