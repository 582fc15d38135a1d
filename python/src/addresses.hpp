#pragma once

#include <nanobind/ndarray.h>

#include <altdiff/batch.hpp>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "bindings.hpp"
#include "linalg/memory.hpp"

namespace altdiff::python {

// Arrays come as addresses of float64 numbers in C order: what Python knows about them (their shapes, that
// they live long enough) it has checked, and an address is ten times faster to pass than an array. Zero:
// absent.
using Address = std::uintptr_t;
template <std::size_t count>
using Addresses = std::array<Address, count>;

static_assert(sizeof(Index) == sizeof(std::int64_t));

template <class T = double>
T* at_address(Address address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

inline BatchField field_at(Address data, Index count, Address which) {
  return {.data = at_address<const double>(data), .count = count, .which = at_address<const Index>(which)};
}

using Shape = std::vector<std::size_t>;

/// A new array of numpy's, in memory that goes back to the core with it.
struct NewArray {
  double* data;
  nanobind::object array;

  explicit NewArray(const Shape& shape) {
    const auto size = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
    auto memory = std::make_unique<detail::Memory>(static_cast<Index>(size));
    data = memory->data();
    const nanobind::capsule owner(memory.release(),
                                  [](void* p) noexcept { delete static_cast<detail::Memory*>(p); });
    array =
        nanobind::cast(nanobind::ndarray<nanobind::numpy, double>(data, shape.size(), shape.data(), owner));
  }
};

BatchProgram program_at(Index size, Index n, Index m, Index p, const Addresses<8>& fields,
                        const std::array<Index, 8>& counts, const Addresses<8>& which);

/// The first point of a solve, where there is one.
PointBlock start_at(const BatchProgram& program, const std::optional<Addresses<4>>& initial);

/// (L2) of a vector like x for each instance, from one address to another.
template <class Batch>
void write_flat_part(const Batch& batch, Address source, Address target, bool unless_solved) {
  const auto size = static_cast<Index>(batch.solution.status.size());
  const Eigen::Map<const DenseMatrix> v(at_address<const double>(source), batch.rows(0), size);
  const WithoutGil without_gil;
  Eigen::Map<DenseMatrix>(at_address(target), v.rows(), size) =
      flat_part(batch.solution, v, {.unless_solved = unless_solved}, batch.num_threads);
}

/// x, y, z or z_box of a solved batch, as a new array.
template <class Batch>
nanobind::object part(const Batch& batch, int index, bool batched) {
  const auto place = static_cast<std::size_t>(index);
  const auto rows = static_cast<std::size_t>(batch.rows(place));
  const NewArray target(batched ? Shape{batch.solution.status.size(), rows} : Shape{rows});
  batch.copy_part(place, target.data);
  return target.array;
}

/// What a batch says of itself, as new arrays.
nanobind::dict report_of(const BatchSolution& solution);

/// The shape of a field's array, or arrays.
Shape shape_of(const BatchProgram& program, Field field, bool batched);

inline BatchCotangent cotangent_at(const Addresses<5>& bars) {
  return {.x = at_address(bars[0]),
          .y = at_address(bars[1]),
          .z = at_address(bars[2]),
          .z_box = at_address(bars[3]),
          .objective = at_address(bars[4])};
}

}  // namespace altdiff::python
