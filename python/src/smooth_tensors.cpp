#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "addresses.hpp"
#include "bindings.hpp"
#include "smooth_batch.hpp"
#include "tensor_exchange.hpp"
#include "terms.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

/// What Python knows about an objective and the shapes of a call's tensors.
struct Layout {
  nb::object objective;  // what its terms are, but for their numbers
  Shapes shapes;         // of the numbers, then of G, h, A, b, lb, ub
  nb::object python;
  SmoothProgram program;  // without the data
  NumberPlaces places;
  Sizes batch;
};

constexpr std::size_t first_constraint = 2;  // P and q belong to the objective
constexpr std::size_t constraints = 6;

/// The quick way between a tensor library and built-in objectives, as TensorExchange is for quadratic
/// programs.
class SmoothExchange {
 public:
  /// `describe` makes of an objective and shapes the layout, its terms and their places; or None.
  SmoothExchange(const nb::object& functions, nb::tuple types, nb::object describe)
      : library_(functions, std::move(types)), describe_(std::move(describe)) {}

  /// The layout, the solved batch, and the first few of x, y, z, z_box, objective as tensors; None for these
  /// if an instance failed. `tensors` are the objective's numbers, then the constraints.
  nb::object solve(const nb::object& objective, const nb::tuple& tensors, const Settings& settings,
                   std::size_t outputs) {
    Looked looked;
    if (!library_.look_at(tensors, looked)) return nb::none();
    const Layout* layout = layouts_.find(
        [&](const Layout& known) { return fits(known.shapes, looked) && known.objective.equal(objective); },
        [&] { return described(objective, looked); });
    if (layout == nullptr) return nb::none();
    // Another thread may come in while this one solves, and drive the layout out.
    const nb::object python = layout->python;
    const Sizes shape = layout->batch;
    auto batch = std::make_unique<SmoothBatch>(SmoothBatch{.program = layout->program,
                                                           .solution = {},
                                                           .num_threads = settings.num_threads,
                                                           .places = layout->places});
    for (std::size_t i = 0; i < looked.size(); ++i)
      field(*batch, i).data = static_cast<const double*>(looked[i].data);
    {
      const WithoutGil without_gil;
      batch->solution = altdiff::solve(batch->program, settings);
    }
    nb::object results = nb::none();
    if (batch->all_solved()) results = output_tensors(library_, *batch, shape, outputs);
    return nb::make_tuple(python, nb::cast(batch.release(), nb::rv_policy::take_ownership), results);
  }

  /// The gradients of the tensors that need one, and None for the others. `tensors` are those of `solve`, and
  /// `bars` the cotangents of its outputs.
  [[nodiscard]] nb::object vjp(SmoothBatch& batch, const nb::tuple& tensors, const nb::tuple& bars,
                               const std::vector<bool>& needed, double missing, bool unless_solved) const {
    Looked looked;
    Looked cotangents;
    if (!library_.look_at(tensors, looked, true) || !library_.look_at(bars, cotangents)) return nb::none();
    const std::size_t numbers = batch.places.size();
    if (looked.size() != numbers + constraints) return nb::none();  // solved the long way
    SmoothGradient targets{.terms = std::vector<TermGradient>(batch.program.terms.size())};
    nb::list gradients;
    for (std::size_t i = 0; i < looked.size(); ++i) {
      if (looked[i].data != field(batch, i).data) return nb::none();
      double*& target =
          i < numbers ? targets.terms.at(batch.places[i].first).*gradient_fields.at(batch.places[i].second)
                      : targets.constraints.at(first_constraint + i - numbers);
      gradients.append(needed.at(i) ? library_.tensor(shape_of(looked[i]), target) : nb::none());
    }
    const WithoutGil without_gil;
    altdiff::vjp(batch.program, batch.solution, cotangent_in(cotangents), targets,
                 {.value = missing, .unless_solved = unless_solved}, batch.num_threads);
    return gradients;
  }

 private:
  /// A number of the objective, or a field of the constraints.
  static BatchField& field(SmoothBatch& batch, std::size_t i) {
    const std::size_t numbers = batch.places.size();
    if (i >= numbers) return batch.program.constraints.fields.at(first_constraint + i - numbers);
    return batch.program.terms.at(batch.places[i].first).*term_fields.at(batch.places[i].second);
  }

  [[nodiscard]] std::optional<Layout> described(const nb::object& objective, const Looked& tensors) const {
    Layout layout{.objective = objective, .shapes = shapes_of(tensors)};
    const nb::object description = describe_(objective, python_shapes(layout.shapes));
    if (description.is_none()) return std::nullopt;
    const auto [python, terms, places] =
        nb::cast<std::tuple<nb::object, std::vector<TermArguments>, NumberPlaces>>(description);
    const nb::object sizes = python.attr("program");
    layout.python = python;
    layout.program = {.constraints = program_of(sizes), .terms = terms_at(terms)};
    layout.places = places;
    layout.batch = nb::cast<Sizes>(sizes.attr("batch"));
    return layout;
  }

  TensorLibrary library_;
  nb::object describe_;
  KnownLayouts<Layout> layouts_;
};

}  // namespace

void bind_smooth_tensors(nb::module_& module) {
  nb::class_<SmoothExchange>(module, "SmoothExchange",
                             "The quick way between tensors and built-in objectives")
      .def(nb::init<const nb::object&, nb::tuple, nb::object>(), "functions"_a.none(), "types"_a,
           "describe"_a)
      .def("solve", &SmoothExchange::solve, "objective"_a, "tensors"_a, "settings"_a, "outputs"_a)
      .def("vjp", &SmoothExchange::vjp, "batch"_a, "tensors"_a, "bars"_a, "needed"_a, "missing"_a,
           "unless_solved"_a);
}

}  // namespace altdiff::python
