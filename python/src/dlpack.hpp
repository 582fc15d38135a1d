#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

/// DLPack's C interface between libraries, version 1: what nanobind does not declare of it. The layout of
/// these structs is DLPack's; https://dmlc.github.io/dlpack/latest/c_api.html says what they mean.
namespace altdiff::python::dlpack {

using Tensor = nanobind::dlpack::dltensor;

constexpr std::uint32_t major_version = 1;
constexpr std::int32_t cpu = 1;

struct Version {
  std::uint32_t major = 0, minor = 0;
};

/// A tensor that whoever takes it gives back to `deleter`.
struct ManagedTensor {
  Version version{};
  void* context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor{};
};

/// A library's functions. Those that return an int give zero, or else have set a Python error.
struct Exchange {
  Version version{};
  const Exchange* previous = nullptr;
  void* allocate = nullptr;
  void* managed_from_object = nullptr;
  int (*object_from_managed)(ManagedTensor* tensor, void** object) = nullptr;  ///< takes the tensor
  int (*look_at_object)(void* object,
                        Tensor* tensor) = nullptr;  ///< what is looked at is the object's; may be null
  void* current_work_stream = nullptr;
};

}  // namespace altdiff::python::dlpack
