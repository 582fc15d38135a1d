#include "linalg/known_analyses.hpp"

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

namespace altdiff::detail {

namespace {

constexpr std::size_t most_known = 16;
constexpr double most_entries = 4e6;  // of L and of the patterns, together: some 64 MB

/// The pattern of one matrix.
struct Pattern {
  std::vector<int> starts, rows;
  Index row_count = 0;

  explicit Pattern(const SparseMatrix& X)
      : starts(X.outerIndexPtr(), X.outerIndexPtr() + X.outerSize() + 1),
        rows(X.innerIndexPtr(), X.innerIndexPtr() + X.nonZeros()),
        row_count(X.rows()) {}

  [[nodiscard]] bool is_of(const SparseMatrix& X) const {
    return X.rows() == row_count && std::cmp_equal(X.nonZeros(), rows.size()) &&
           std::cmp_equal(X.outerSize() + 1, starts.size()) &&
           std::ranges::equal(starts, std::span(X.outerIndexPtr(), starts.size())) &&
           std::ranges::equal(rows, std::span(X.innerIndexPtr(), rows.size()));
  }
};

struct Known {
  std::array<Pattern, 3> patterns;
  std::shared_ptr<const SparseAnalysis> analysis;

  [[nodiscard]] bool is_of(const std::array<const SparseMatrix*, 3>& matrices) const {
    return std::ranges::equal(patterns, matrices,
                              [](const Pattern& pattern, const auto* X) { return pattern.is_of(*X); });
  }
  [[nodiscard]] double entries() const {
    return analysis->ldl.order.fill() + 2 * static_cast<double>(analysis->kkt.upper.nonZeros());
  }
};

class KnownAnalyses {
 public:
  std::shared_ptr<const SparseAnalysis> find(const std::array<const SparseMatrix*, 3>& matrices) {
    const std::scoped_lock lock(mutex_);
    const auto found =
        std::ranges::find_if(known_, [&](const Known& known) { return known.is_of(matrices); });
    if (found == known_.end()) return nullptr;
    known_.splice(known_.begin(), known_, found);
    return found->analysis;
  }

  void keep(Known known) {
    if (known.entries() > most_entries) return;
    const std::scoped_lock lock(mutex_);
    known_.push_front(std::move(known));
    const auto total = [&] {
      return std::accumulate(known_.begin(), known_.end(), 0.0,
                             [](double sum, const Known& each) { return sum + each.entries(); });
    };
    while (known_.size() > most_known || total() > most_entries) known_.pop_back();
  }

 private:
  std::mutex mutex_;
  std::list<Known> known_;  // the latest used first
};

/// Never destroyed: a solve may run after every static object is gone.
KnownAnalyses& known_analyses() {
  static auto* const analyses = new KnownAnalyses;
  return *analyses;
}

}  // namespace

std::shared_ptr<const SparseAnalysis> analysis_of(const SparseMatrix& H, const SparseMatrix& A,
                                                  const SparseMatrix& G) {
  const std::array matrices{&H, &A, &G};
  if (auto found = known_analyses().find(matrices)) return found;
  auto fresh = std::make_shared<const SparseAnalysis>(H, A, G);
  known_analyses().keep({.patterns = {Pattern(H), Pattern(A), Pattern(G)}, .analysis = fresh});
  return fresh;
}

}  // namespace altdiff::detail
