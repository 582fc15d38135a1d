#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "addresses.hpp"
#include "bindings.hpp"
#include "dense_batch.hpp"
#include "tensor_exchange.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

/// What Python knows about the shapes of a call's fields.
struct Layout {
  Shapes shapes;
  nb::object python;
  BatchProgram program;  // without the data
  Sizes batch;
};

/// The quick way between a tensor library and the core. What it cannot do it leaves to Python by returning
/// None, and so the errors to the one place that words them.
class TensorExchange {
 public:
  /// `describe` makes a layout of eight shapes.
  TensorExchange(const nb::object& functions, nb::tuple types, nb::object describe)
      : library_(functions, std::move(types)), describe_(std::move(describe)) {}

  /// The layout, the solved batch, and the first few of x, y, z, z_box, objective as tensors; None for these
  /// if an instance failed.
  nb::object solve(const nb::tuple& fields, const Settings& settings, std::size_t outputs) {
    Looked looked;
    if (!library_.look_at(fields, looked)) return nb::none();
    const Layout* layout = layouts_.find([&](const Layout& known) { return fits(known.shapes, looked); },
                                         [&] { return described(looked); });
    if (layout == nullptr) return nb::none();
    // Another thread may come in while this one solves, and drive the layout out.
    const nb::object python = layout->python;
    const Sizes shape = layout->batch;
    auto batch = std::make_unique<DenseBatch>(layout->program, BatchSolution{}, settings.num_threads);
    for (std::size_t f = 0; f < looked.size(); ++f)
      batch->program.fields.at(f).data = static_cast<const double*>(looked[f].data);
    {
      const WithoutGil without_gil;
      batch->solution = altdiff::solve(batch->program, settings);
    }
    nb::object tensors = nb::none();
    if (batch->all_solved()) tensors = output_tensors(library_, *batch, shape, outputs);
    return nb::make_tuple(python, nb::cast(batch.release(), nb::rv_policy::take_ownership), tensors);
  }

  /// The gradients of the fields that need one, and None for the others. `fields` are those of `solve`, and
  /// `bars` the cotangents of its outputs.
  [[nodiscard]] nb::object vjp(const DenseBatch& batch, const nb::tuple& fields, const nb::tuple& bars,
                               const std::array<bool, 8>& needed, double missing, bool unless_solved) const {
    Looked looked;
    Looked cotangents;
    if (!library_.look_at(fields, looked, true) || !library_.look_at(bars, cotangents)) return nb::none();
    for (std::size_t f = 0; f < looked.size(); ++f)
      if (looked[f].data != batch.program.fields.at(f).data) return nb::none();
    BatchGradient targets{};
    nb::list gradients;
    for (std::size_t f = 0; f < looked.size(); ++f)
      gradients.append(needed.at(f) ? library_.tensor(shape_of(looked[f]), targets.at(f)) : nb::none());
    const WithoutGil without_gil;
    altdiff::vjp(batch.program, batch.solution, cotangent_in(cotangents), targets,
                 {.value = missing, .unless_solved = unless_solved}, batch.num_threads);
    return gradients;
  }

 private:
  [[nodiscard]] std::optional<Layout> described(const Looked& fields) const {
    Layout layout{.shapes = shapes_of(fields)};
    layout.python = describe_(python_shapes(layout.shapes));
    if (!nb::cast<bool>(layout.python.attr("plain"))) return std::nullopt;
    layout.program = program_of(layout.python);
    layout.batch = nb::cast<Sizes>(layout.python.attr("batch"));
    return layout;
  }

  TensorLibrary library_;
  nb::object describe_;
  KnownLayouts<Layout> layouts_;
};

}  // namespace

void bind_tensors(nb::module_& module) {
  nb::class_<TensorExchange>(module, "TensorExchange", "The quick way between tensors and the core")
      .def(nb::init<const nb::object&, nb::tuple, nb::object>(), "functions"_a.none(), "types"_a,
           "describe"_a)
      .def("solve", &TensorExchange::solve, "fields"_a, "settings"_a, "outputs"_a)
      .def("vjp", &TensorExchange::vjp, "batch"_a, "fields"_a, "bars"_a, "needed"_a, "missing"_a,
           "unless_solved"_a);
}

}  // namespace altdiff::python
