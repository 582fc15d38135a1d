#pragma once

#include <altdiff/matrix.hpp>
#include <utility>

namespace altdiff::detail {

/// A block of numbers, not set, that begins at a cache line. Given back, it waits for the next batch of its
/// size, as every step of a training has one: memory fresh from the system costs a page fault for every few
/// hundred numbers, which for many small problems is longer than to solve them. At most 128 blocks and 64 MB
/// wait.
class Memory {
 public:
  Memory() = default;
  explicit Memory(Index count);
  ~Memory();
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(numbers_, other.numbers_);
    std::swap(count_, other.count_);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] double* data() const { return numbers_; }

 private:
  double* numbers_ = nullptr;
  Index count_ = 0;
};

/// A matrix in such memory.
class PooledMatrix : public Eigen::Map<DenseMatrix> {
 public:
  PooledMatrix(Index rows, Index cols) : PooledMatrix(Memory(rows * cols), rows, cols) {}

 private:
  PooledMatrix(Memory memory, Index rows, Index cols)
      : Eigen::Map<DenseMatrix>(memory.data(), rows, cols), memory_(std::move(memory)) {}

  Memory memory_;
};

}  // namespace altdiff::detail
