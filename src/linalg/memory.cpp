#include "linalg/memory.hpp"

#include <mutex>
#include <new>
#include <vector>

namespace altdiff::detail {

namespace {

constexpr Index most_idle = 8388608;      // numbers: 64 MB
constexpr std::size_t most_blocks = 128;  // a training step uses some twenty for each of its layers

struct Block {
  double* numbers = nullptr;
  Index count = 0;
};

constexpr std::align_val_t cache_line{64};

Block allocated(Index count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(double);
  return {.numbers = static_cast<double*>(::operator new(bytes, cache_line)), .count = count};
}

void free(const Block& block) { ::operator delete(block.numbers, cache_line); }

/// Blocks that wait.
class Idle {
 public:
  /// The smallest that is large enough, and not much too large; of several the last given back, which the
  /// caches may still hold; empty if there is none.
  Block take(Index count) {
    const std::scoped_lock lock(mutex_);
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      const bool fits = block->count >= count && block->count <= 2 * count;
      if (fits && (best == blocks_.end() || block->count < best->count)) best = block;
    }
    if (best == blocks_.end()) return {};
    const Block found = *best;
    total_ -= found.count;
    blocks_.erase(best);
    return found;
  }

  void give(const Block& block) {
    const std::scoped_lock lock(mutex_);
    if (block.count > most_idle) {
      free(block);
      return;
    }
    while (total_ + block.count > most_idle || blocks_.size() >= most_blocks) {  // the oldest go first
      total_ -= blocks_.front().count;
      free(blocks_.front());
      blocks_.erase(blocks_.begin());
    }
    total_ += block.count;
    blocks_.push_back(block);
  }

 private:
  std::mutex mutex_;
  std::vector<Block> blocks_;
  Index total_ = 0;
};

/// Never destroyed: a solution may be given back after every static object is gone.
Idle& idle() {
  static Idle* const blocks = new Idle;
  return *blocks;
}

}  // namespace

Memory::Memory(Index count) {
  Block block = idle().take(count);
  if (block.numbers == nullptr) block = allocated(count);
  numbers_ = block.numbers;
  count_ = block.count;
}

Memory::~Memory() {
  if (numbers_ != nullptr) idle().give({.numbers = numbers_, .count = count_});
}

}  // namespace altdiff::detail
