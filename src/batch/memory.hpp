#pragma once

#include <altdiff/matrix.hpp>
#include <memory>

namespace altdiff::detail {

/// A block of numbers, not set. Given back, it waits for the next batch of its size, as every step of a
/// training has one: memory fresh from the system costs a page fault for every few hundred numbers, which for
/// many small problems is longer than to solve them. At most 64 MB wait.
class Memory {
 public:
  Memory() = default;
  explicit Memory(Index count);
  ~Memory();
  Memory(Memory&&) = default;
  Memory& operator=(Memory&&) = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] double* data() const { return numbers_.get(); }

 private:
  std::unique_ptr<double[]> numbers_{};
  Index count_ = 0;
};

}  // namespace altdiff::detail
