#include "budget/simplex.hpp"

#include <array>
#include <limits>

#include "budget/exp.hpp"
#include "budget/sweep.hpp"

namespace altdiff::detail {

namespace {

constexpr Index packs_at_once = 4;

/// Entries that may be positive, at the beginning of the memory given for them.
template <class T>
struct Candidates {
  T largest = -std::numeric_limits<T>::infinity();
  Index count = 0;
  bool valid = true;
};

template <class Mask>
bool any(const Mask& mask) {
  std::array<std::int64_t, 4> words;
  std::memcpy(words.data(), &mask, sizeof(words));
  return (words[0] | words[1] | words[2] | words[3]) != 0;
}

/// Entries not below (largest so far) - total. tau is not below the largest - total: the largest entry alone
/// would exceed the total. In most rows a few blocks hold one, and the others cost a comparison.
template <class T>
class Collector {
 public:
  Collector(double total, T* target) : total_(static_cast<T>(total)), target_(target) {}

  void add(T value) {
    if (!(value >= threshold_)) {
      found_.valid = found_.valid && value == value;
      return;
    }
    found_.valid = found_.valid && value < std::numeric_limits<T>::infinity();
    target_[found_.count++] = value;
    if (value > found_.largest) {
      found_.largest = value;
      threshold_ = std::max(value - total_, std::numeric_limits<T>::lowest());
    }
  }

  void add_block(const T* y) {
    const Pack<T> threshold = Pack<T>{} + threshold_;
    const auto pack = [&](Index k) { return load_pack(y + k * pack_size<T>); };
    const Pack<T> v0 = pack(0), v1 = pack(1), v2 = pack(2), v3 = pack(3);
    // Not "v >= threshold": NaN must not pass by.
    const auto below = (v0 < threshold) & (v1 < threshold) & (v2 < threshold) & (v3 < threshold);
    if (!any(~below)) return;
    for (Index i = 0; i < packs_at_once * pack_size<T>; ++i) add(y[i]);
  }

  [[nodiscard]] const Candidates<T>& found() const { return found_; }

 private:
  T total_;
  T threshold_ = std::numeric_limits<T>::lowest();  // masked entries are below
  T* target_;
  Candidates<T> found_{};
};

template <class T>
Candidates<T> collect(const T* y, Index n, double total, T* target) {
  constexpr Index block = packs_at_once * pack_size<T>;
  Collector<T> collector(total, target);
  Index i = 0;
  for (; i + block <= n; i += block) collector.add_block(y + i);
  for (; i < n; ++i) collector.add(y[i]);
  return collector.found();
}

/// The candidates of all pieces, one after another.
template <class T>
Candidates<T> collect_row(const T* y, Index n, double total, T* target, int threads) {
  std::array<Candidates<T>, most_pieces> parts;
  for_pieces(n, threads, [&](Index begin, Index end, Index piece) {
    parts[static_cast<std::size_t>(piece)] = collect(y + begin, end - begin, total, target + begin);
  });
  Candidates<T> all_found = parts[0];
  const Pieces pieces(n);
  for (Index piece = 1; piece < pieces.count; ++piece) {
    const Candidates<T>& part = parts[static_cast<std::size_t>(piece)];
    const T* from = target + piece * pieces.length;
    std::copy(from, from + part.count, target + all_found.count);
    all_found.count += part.count;
    all_found.largest = std::max(all_found.largest, part.largest);
    all_found.valid = all_found.valid && part.valid;
  }
  return all_found;
}

}  // namespace

template <class T>
SimplexLevel simplex_level(const T* y, Index n, double total, T* candidates, int threads) {
  const Candidates<T> found = collect_row(y, n, total, candidates, threads);
  if (!found.valid) return {.valid = false};
  if (found.count == 0) return {.masked = true};
  const auto base = static_cast<double>(found.largest);
  double level = -total;
  Index count = found.count;
  for (bool first = true;; first = false) {  // Michelot: the level of those above the last level
    Index kept = 0;
    double sum = 0;
    for (Index i = 0; i < count; ++i) {
      const T value = candidates[i];
      const double height = static_cast<double>(value) - base;
      const bool above = height >= level;
      candidates[kept] = value;
      kept += above ? 1 : 0;
      sum += above ? height : 0;
    }
    level = (sum - total) / static_cast<double>(kept);  // the largest is above every level
    if (kept == count && !first) return {.base = base, .level = level};
    count = kept;
  }
}

template SimplexLevel simplex_level(const float*, Index, double, float*, int);
template SimplexLevel simplex_level(const double*, Index, double, double*, int);

}  // namespace altdiff::detail
