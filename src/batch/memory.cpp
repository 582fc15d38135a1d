#include "batch/memory.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace altdiff::detail {

namespace {

constexpr Index most_idle = (Index{64} << 20) / static_cast<Index>(sizeof(double));

/// Blocks that wait.
class Idle {
 public:
  std::pair<std::unique_ptr<double[]>, Index> take(Index count) {
    const std::scoped_lock lock(mutex_);
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      const bool fits = block->second >= count && block->second <= 2 * count;
      if (fits && (best == blocks_.end() || block->second < best->second)) best = block;
    }
    if (best == blocks_.end()) return {};
    auto found = std::move(*best);
    total_ -= found.second;
    blocks_.erase(best);
    return found;
  }

  void give(std::unique_ptr<double[]> numbers, Index count) {
    const std::scoped_lock lock(mutex_);
    if (count > most_idle) return;
    while (total_ + count > most_idle) {  // the oldest go first
      total_ -= blocks_.front().second;
      blocks_.erase(blocks_.begin());
    }
    total_ += count;
    blocks_.emplace_back(std::move(numbers), count);
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::unique_ptr<double[]>, Index>> blocks_;
  Index total_ = 0;
};

/// Never destroyed: a solution may be given back after every static object is gone.
Idle& idle() {
  static Idle* const blocks = new Idle;
  return *blocks;
}

}  // namespace

Memory::Memory(Index count) : count_(count) {
  auto [numbers, found] = idle().take(count);
  if (numbers == nullptr) {
    numbers_ = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(count));
  } else {
    numbers_ = std::move(numbers);
    count_ = found;
  }
}

Memory::~Memory() {
  if (numbers_ != nullptr) idle().give(std::move(numbers_), count_);
}

}  // namespace altdiff::detail
