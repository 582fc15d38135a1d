#pragma once

#include <algorithm>
#include <altdiff/matrix.hpp>
#include <memory>
#include <mutex>
#include <vector>

namespace altdiff::detail {

/// Workspaces that wait for the next who has use for them, as every step of a training has: that of a small
/// problem takes longer to make than the problem to solve. A `Workspace` says how much memory it has.
template <class Workspace>
class Spares {
 public:
  /// The last given back that fits; null if there is none.
  template <class Fits>
  std::unique_ptr<Workspace> take(const Fits& fits) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                    [&](const std::unique_ptr<Workspace>& one) { return fits(*one); });
    if (found == waiting_.rend()) return nullptr;
    std::unique_ptr<Workspace> taken = std::move(*found);
    waiting_.erase(std::next(found).base());
    return taken;
  }

  void give(std::unique_ptr<Workspace> workspace) {
    if (workspace->numbers() > most_numbers) return;
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= most_waiting) waiting_.erase(waiting_.begin());  // the oldest
    waiting_.push_back(std::move(workspace));
  }

  /// Never destroyed: somebody may give one back after every static object is gone.
  static Spares& all() {
    static auto* const spares = new Spares;
    return *spares;
  }

 private:
  static constexpr Index most_numbers = 8192;  // 64 KB: to make a larger one is not what takes time
  static constexpr std::size_t most_waiting = 64;

  std::mutex mutex_{};
  std::vector<std::unique_ptr<Workspace>> waiting_{};
};

/// One of them, which goes back when nobody needs it any more.
template <class Workspace>
struct GiveBack {
  void operator()(Workspace* workspace) const {
    Spares<Workspace>::all().give(std::unique_ptr<Workspace>(workspace));
  }
};
template <class Workspace>
using Spare = std::unique_ptr<Workspace, GiveBack<Workspace>>;

/// One that fits; if none waits, a new one, made from the other arguments.
template <class Workspace, class Fits, class... Arguments>
Spare<Workspace> spare(const Fits& fits, const Arguments&... arguments) {
  std::unique_ptr<Workspace> taken = Spares<Workspace>::all().take(fits);
  if (taken == nullptr) taken = std::make_unique<Workspace>(arguments...);
  return Spare<Workspace>(taken.release());
}

}  // namespace altdiff::detail
