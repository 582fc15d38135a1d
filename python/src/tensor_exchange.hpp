#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <altdiff/batch.hpp>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "dlpack.hpp"

namespace altdiff::python {

using Sizes = std::vector<std::int64_t>;
using Looked = std::vector<dlpack::Tensor>;  // the tensors of a call; no data: absent

[[nodiscard]] inline std::span<const std::int64_t> shape_of(const dlpack::Tensor& tensor) {
  return {tensor.shape, static_cast<std::size_t>(tensor.ndim)};
}

[[nodiscard]] inline Sizes sizes_of(const dlpack::Tensor& tensor) {
  return {shape_of(tensor).begin(), shape_of(tensor).end()};
}

/// The shapes of a call's tensors; none where one is absent.
using Shapes = std::vector<std::optional<Sizes>>;
[[nodiscard]] Shapes shapes_of(const Looked& tensors);
[[nodiscard]] bool fits(const Shapes& shapes, const Looked& tensors);
/// The same as Python has it.
[[nodiscard]] nanobind::tuple python_shapes(const Shapes& shapes);

/// A tensor library's functions in C: a small call spends most of its time on Python objects. They serve
/// calls whose tensors the core can read where they are.
class TensorLibrary {
 public:
  /// `types` are those that hold nothing but a tensor, unlike most subclasses. No functions: nothing can be
  /// looked at.
  TensorLibrary(const nanobind::object& functions, nanobind::tuple types);

  /// Whether the core can read all of these, None apart, where they are. `again`: it could before.
  [[nodiscard]] bool look_at(const nanobind::tuple& objects, Looked& looked, bool again = false) const;

  /// A new tensor of the library's; `data` is where its numbers go.
  [[nodiscard]] nanobind::object tensor(std::span<const std::int64_t> shape, double*& data) const;

 private:
  const dlpack::Exchange* functions_ = nullptr;  // null: the library offers none
  nanobind::tuple types_;
  nanobind::object is_negated_;
};

/// The first `count` of x, y, z, z_box and objective of a solved batch, as tensors.
template <class Batch>
[[nodiscard]] nanobind::tuple output_tensors(const TensorLibrary& library, const Batch& batch,
                                             const Sizes& shape, std::size_t count) {
  constexpr std::size_t parts = 4;
  nanobind::list tensors;
  double* data = nullptr;
  for (std::size_t part = 0; part < std::min(count, parts); ++part) {
    Sizes own = shape;
    own.push_back(batch.rows(part));
    tensors.append(library.tensor(own, data));
    batch.copy_part(part, data);
  }
  if (count > parts) {
    tensors.append(library.tensor(shape, data));
    std::ranges::copy(batch.solution.objective, data);
  }
  return nanobind::tuple(tensors);
}

/// The cotangents of these outputs; those of the last may be left out.
[[nodiscard]] BatchCotangent cotangent_in(const Looked& bars);

/// The sizes of a batch and how its fields broadcast, from Python's layout; without the data.
[[nodiscard]] BatchProgram program_of(const nanobind::object& layout);

/// The few that a training loop needs again and again, the latest used first.
template <class Layout>
class KnownLayouts {
 public:
  /// The one that `fits`, or else the one that `describe` makes, if it does; null if not.
  template <class Fits, class Describe>
  const Layout* find(const Fits& fits, const Describe& describe) {
    const auto found = std::ranges::find_if(layouts_, fits);
    if (found != layouts_.end()) {
      layouts_.splice(layouts_.begin(), layouts_, found);
    } else {
      std::optional<Layout> layout = describe();
      if (!layout) return nullptr;
      if (layouts_.size() == most) layouts_.pop_back();
      layouts_.push_front(std::move(*layout));
    }
    return &layouts_.front();
  }

 private:
  static constexpr std::size_t most = 64;
  std::list<Layout> layouts_;
};

}  // namespace altdiff::python
