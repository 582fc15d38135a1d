#include "tensor_exchange.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "addresses.hpp"
#include "linalg/memory.hpp"

namespace nb = nanobind;

namespace altdiff::python {

namespace {

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
  Sizes layout;  // the shape, then the strides
  detail::Memory memory;

  explicit NewTensor(std::span<const std::int64_t> shape) : layout(2 * shape.size()) {
    std::ranges::copy(shape, layout.begin());
    std::int64_t count = 1;
    for (std::size_t i = shape.size(); i-- > 0; count *= shape[i]) layout[shape.size() + i] = count;
    memory = detail::Memory(count);
    managed = {.version = {.major = dlpack::major_version, .minor = 0},
               .context = this,
               .deleter = [](dlpack::ManagedTensor* m) { delete static_cast<NewTensor*>(m->context); },
               .flags = 0,
               .tensor = {.data = memory.data(),
                          .device = {.device_type = dlpack::cpu, .device_id = 0},
                          .ndim = static_cast<std::int32_t>(shape.size()),
                          .dtype = nb::dtype<double>(),
                          .shape = layout.data(),
                          .strides = layout.data() + shape.size(),
                          .byte_offset = 0}};
  }
};

}  // namespace

Shapes shapes_of(const Looked& tensors) {
  Shapes shapes(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].data != nullptr) shapes[i] = sizes_of(tensors[i]);
  return shapes;
}

bool fits(const Shapes& shapes, const Looked& tensors) {
  return std::ranges::equal(shapes, tensors, [](const auto& shape, const dlpack::Tensor& tensor) {
    const bool given = tensor.data != nullptr;
    return shape ? given && std::ranges::equal(*shape, shape_of(tensor)) : !given;
  });
}

nb::tuple python_shapes(const Shapes& shapes) {
  nb::list list;
  for (const auto& shape : shapes)
    list.append(shape ? nb::object(nb::tuple(nb::cast(*shape))) : nb::object(nb::none()));
  return nb::tuple(list);
}

TensorLibrary::TensorLibrary(const nb::object& functions, nb::tuple types)
    : types_(std::move(types)), is_negated_(types_[0].attr("is_neg")) {
  if (functions.is_none()) return;
  const auto* exchange = static_cast<const dlpack::Exchange*>(nb::cast<nb::capsule>(functions).data());
  if (exchange->version.major == dlpack::major_version && exchange->look_at_object != nullptr)
    functions_ = exchange;
}

bool TensorLibrary::look_at(const nb::tuple& objects, Looked& looked, bool again) const {
  if (functions_ == nullptr) return false;
  looked.assign(objects.size(), {});
  std::size_t place = 0;
  for (const nb::handle object : objects) {
    dlpack::Tensor& tensor = looked[place++];
    if (object.is_none()) continue;
    if (!std::ranges::any_of(types_, [&](nb::handle type) { return object.type().is(type); })) return false;
    if (functions_->look_at_object(object.ptr(), &tensor) != 0) {
      PyErr_Clear();  // nothing to look at, such as a sparse tensor's
      return false;
    }
    if (tensor.data == nullptr || tensor.device.device_type != dlpack::cpu ||
        tensor.dtype != nb::dtype<double>() || !in_c_order(tensor))
      return false;
    // The one property of a tensor that DLPack cannot tell: its numbers may stand for their opposites. That
    // never changes.
    if (!again && nb::cast<bool>(is_negated_(object))) return false;
  }
  return true;
}

BatchCotangent cotangent_in(const Looked& bars) {
  Addresses<5> addresses{};
  for (std::size_t i = 0; i < bars.size(); ++i) addresses.at(i) = reinterpret_cast<Address>(bars[i].data);
  return cotangent_at(addresses);
}

BatchProgram program_of(const nb::object& layout) {
  const auto [size, n, m, p] = nb::cast<std::tuple<Index, Index, Index, Index>>(layout.attr("core_sizes"));
  return program_at(size, n, m, p, {}, nb::cast<std::array<Index, 8>>(layout.attr("counts")),
                    nb::cast<Addresses<8>>(layout.attr("place_addresses")));
}

nb::object TensorLibrary::tensor(std::span<const std::int64_t> shape, double*& data) const {
  auto fresh = std::make_unique<NewTensor>(shape);
  data = fresh->memory.data();
  void* object = nullptr;
  if (functions_->object_from_managed(&fresh.release()->managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

}  // namespace altdiff::python
