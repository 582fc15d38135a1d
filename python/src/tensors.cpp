#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <list>
#include <span>
#include <vector>

#include "bindings.hpp"
#include "dense_batch.hpp"
#include "dlpack.hpp"
#include "linalg/memory.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace altdiff::python {

namespace {

using Sizes = std::vector<std::int64_t>;
using View = std::span<const std::int64_t>;
using Looked = std::array<dlpack::Tensor, 8>;  // the fields of a call; no data: absent

View shape_of(const dlpack::Tensor& tensor) { return {tensor.shape, static_cast<std::size_t>(tensor.ndim)}; }

bool in_c_order(const dlpack::Tensor& tensor) {
  std::int64_t stride = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

/// A tensor of float64 numbers on its way to the library that will own it.
struct NewTensor {
  dlpack::ManagedTensor managed{};
  Sizes shape, strides;
  detail::Memory memory;

  explicit NewTensor(Sizes sizes) : shape(std::move(sizes)), strides(shape.size()) {
    std::int64_t count = 1;
    for (std::size_t i = shape.size(); i-- > 0; count *= shape[i]) strides[i] = count;
    memory = detail::Memory(count);
    managed = {.version = {.major = dlpack::major_version, .minor = 0},
               .context = this,
               .deleter = [](dlpack::ManagedTensor* m) { delete static_cast<NewTensor*>(m->context); },
               .flags = 0,
               .tensor = {.data = memory.data(),
                          .device = {.device_type = dlpack::cpu, .device_id = 0},
                          .ndim = static_cast<std::int32_t>(shape.size()),
                          .dtype = nb::dtype<double>(),
                          .shape = shape.data(),
                          .strides = strides.data(),
                          .byte_offset = 0}};
  }
};

/// What Python knows about the shapes of a call's fields.
struct Layout {
  std::array<std::optional<Sizes>, 8> shapes;
  nb::object python;
  BatchProgram program;  // without the data
  Sizes batch;

  [[nodiscard]] bool fits(const Looked& fields) const {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::optional<Sizes>& shape = shapes[f];
      const bool given = fields[f].data != nullptr;
      if (shape ? !given || !std::ranges::equal(*shape, shape_of(fields[f])) : given) return false;
    }
    return true;
  }
};

/// The quick way between a tensor library and the core, through the functions that the library offers in C: a
/// small call spends most of its time on Python objects. It is for calls whose tensors the core can read
/// where they are. The others it leaves to Python by returning None, and so the errors to the one place that
/// words them.
class TensorExchange {
 public:
  /// `types` are those that hold nothing but a tensor, unlike most subclasses. `describe` makes a layout of
  /// eight shapes.
  TensorExchange(const nb::object& functions, nb::tuple types, nb::object describe)
      : types_(std::move(types)), describe_(std::move(describe)), is_negated_(types_[0].attr("is_neg")) {
    if (functions.is_none()) return;
    const auto* exchange = static_cast<const dlpack::Exchange*>(nb::cast<nb::capsule>(functions).data());
    if (exchange->version.major == dlpack::major_version && exchange->look_at_object != nullptr)
      exchange_ = exchange;
  }

  /// The layout, the solved batch, and the first few of x, y, z, z_box, objective as tensors; None for these
  /// if an instance failed.
  nb::object solve(const nb::tuple& fields, const Settings& settings, std::size_t outputs) {
    Looked looked{};
    if (!look_at(fields, looked)) return nb::none();
    const Layout* layout = find(looked);
    if (layout == nullptr) return nb::none();
    // Another thread may come in while this one solves, and drive the layout out.
    const nb::object python = layout->python;
    const Sizes shape = layout->batch;
    auto batch = std::make_unique<DenseBatch>(layout->program, BatchSolution{}, settings.num_threads);
    for (std::size_t f = 0; f < looked.size(); ++f)
      batch->program.fields[f].data = static_cast<const double*>(looked[f].data);
    {
      const nb::gil_scoped_release no_gil;
      batch->solution = altdiff::solve(batch->program, settings);
    }
    nb::object tensors = nb::none();
    if (batch->all_solved()) tensors = output_tensors(*batch, shape, outputs);
    return nb::make_tuple(python, nb::cast(batch.release(), nb::rv_policy::take_ownership), tensors);
  }

  /// The gradients of the fields that need one, and None for the others. `fields` are those of `solve`, and
  /// `bars` the cotangents of its outputs.
  [[nodiscard]] nb::object vjp(const DenseBatch& batch, const nb::tuple& fields, const nb::tuple& bars,
                               const std::array<bool, 8>& needed, double missing, bool unless_solved) const {
    Looked looked{};
    if (!look_at(fields, looked)) return nb::none();
    for (std::size_t f = 0; f < looked.size(); ++f)
      if (looked[f].data != batch.program.fields[f].data) return nb::none();
    Looked cotangents{};
    if (!look_at(bars, cotangents)) return nb::none();
    const auto bar = [&](std::size_t i) { return static_cast<const double*>(cotangents[i].data); };
    BatchGradient targets{};
    nb::list gradients;
    for (std::size_t f = 0; f < looked.size(); ++f) {
      const View shape = shape_of(looked[f]);
      gradients.append(needed[f] ? tensor(Sizes(shape.begin(), shape.end()), targets[f]) : nb::none());
    }
    const nb::gil_scoped_release no_gil;
    altdiff::vjp(batch.program, batch.solution,
                 {.x = bar(0), .y = bar(1), .z = bar(2), .z_box = bar(3), .objective = bar(4)}, targets,
                 {.value = missing, .unless_solved = unless_solved}, batch.num_threads);
    return gradients;
  }

 private:
  /// Whether the core can read all of these, None apart, where they are.
  bool look_at(const nb::tuple& objects, Looked& looked) const {
    if (exchange_ == nullptr || objects.size() > looked.size()) return false;
    std::size_t place = 0;
    for (const nb::handle object : objects) {
      dlpack::Tensor& tensor = looked.at(place++);
      if (object.is_none()) continue;
      if (!std::ranges::any_of(types_, [&](nb::handle type) { return object.type().is(type); })) return false;
      if (exchange_->look_at_object(object.ptr(), &tensor) != 0) {
        PyErr_Clear();  // nothing to look at, such as a sparse tensor's
        return false;
      }
      if (tensor.data == nullptr || tensor.device.device_type != dlpack::cpu ||
          tensor.dtype != nb::dtype<double>() || !in_c_order(tensor))
        return false;
      // The one property of a tensor that DLPack cannot tell: its numbers may stand for their opposites.
      if (nb::cast<bool>(is_negated_(object))) return false;
    }
    return true;
  }

  const Layout* find(const Looked& fields) {
    const auto found =
        std::ranges::find_if(layouts_, [&](const Layout& layout) { return layout.fits(fields); });
    if (found != layouts_.end()) {
      layouts_.splice(layouts_.begin(), layouts_, found);
    } else {
      std::optional<Layout> layout = described(fields);
      if (!layout) return nullptr;
      if (layouts_.size() == most_layouts) layouts_.pop_back();
      layouts_.push_front(std::move(*layout));
    }
    return &layouts_.front();
  }

  [[nodiscard]] std::optional<Layout> described(const Looked& fields) const {
    nb::list shapes;
    Layout layout;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      nb::object shape = nb::none();
      if (fields[f].data != nullptr) {
        Sizes sizes(shape_of(fields[f]).begin(), shape_of(fields[f]).end());
        shape = nb::tuple(nb::cast(sizes));
        layout.shapes[f] = std::move(sizes);
      }
      shapes.append(shape);
    }
    layout.python = describe_(nb::tuple(shapes));
    if (!nb::cast<bool>(layout.python.attr("plain"))) return std::nullopt;
    const auto [size, n, m, p] =
        nb::cast<std::tuple<Index, Index, Index, Index>>(layout.python.attr("core_sizes"));
    layout.program = {.size = size, .n = n, .m = m, .p = p};
    const auto counts = nb::cast<std::array<Index, 8>>(layout.python.attr("counts"));
    const auto which = nb::cast<std::array<std::uintptr_t, 8>>(layout.python.attr("place_addresses"));
    for (std::size_t f = 0; f < counts.size(); ++f) {
      layout.program.fields[f].count = counts[f];
      layout.program.fields[f].which =
          reinterpret_cast<const Index*>(which[f]);  // NOLINT(performance-no-int-to-ptr)
    }
    layout.batch = nb::cast<Sizes>(layout.python.attr("batch"));
    return layout;
  }

  [[nodiscard]] nb::tuple output_tensors(const DenseBatch& batch, const Sizes& shape,
                                         std::size_t count) const {
    constexpr std::size_t parts = 4;
    nb::list tensors;
    double* data = nullptr;
    for (std::size_t part = 0; part < std::min(count, parts); ++part) {
      Sizes own = shape;
      own.push_back(batch.rows(part));
      tensors.append(tensor(std::move(own), data));
      batch.copy_part(part, data);
    }
    if (count > parts) {
      tensors.append(tensor(shape, data));
      std::ranges::copy(batch.solution.objective, data);
    }
    return nb::tuple(tensors);
  }

  /// A new tensor of the library's; `data` is where its numbers go.
  nb::object tensor(Sizes shape, double*& data) const {
    auto fresh = std::make_unique<NewTensor>(std::move(shape));
    data = fresh->memory.data();
    void* object = nullptr;
    if (exchange_->object_from_managed(&fresh.release()->managed, &object) != 0) throw nb::python_error();
    return nb::steal(static_cast<PyObject*>(object));
  }

  static constexpr std::size_t most_layouts = 64;  // a training loop has a few

  const dlpack::Exchange* exchange_ = nullptr;  // null: the library offers none
  nb::tuple types_;
  nb::object describe_;
  nb::object is_negated_;
  std::list<Layout> layouts_;  // the latest used first
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
