#include "budget/batch.hpp"
#include "budget/shares.hpp"

namespace altdiff {

using namespace detail;

namespace {

/// A part of a row's own; null: absent.
template <class T>
T* part(T* data, Index r, Index n) {
  return data == nullptr ? nullptr : data + r * n;
}

template <class T>
double number(const T* data, Index i) {
  return data == nullptr ? 0 : static_cast<double>(data[i]);
}

template <class T>
void put(T* data, Index i, double value) {
  if (data != nullptr) data[i] = static_cast<T>(value);
}

template <class T>
BudgetTangent<T> of_row(const BudgetTangent<T>& batch, Index r, Index n) {
  return {.y = part(batch.y, r, n),
          .lower = part(batch.lower, r, n),
          .upper = part(batch.upper, r, n),
          .total = part(batch.total, r, 1)};
}

/// Sums of weights, and of what is weighted.
struct Weighted {
  Lanes weights{}, sum{};

  void add(const Weighted& other) {
    weights += other.weights;
    sum += other.sum;
  }
};

/// w of (B4) where no entry touches a limit: x itself tells which are free.
template <class T, class Lower, class Upper, class Count>
Lanes weights_at(const RowOf<T>& row, const T* x, const Lower& lower, const Upper& upper, Index i,
                 Count some) {
  const Lanes own = load(x + i, some);
  const LaneMask moving = present(some) & (own > lower.at(i, some)) & (own < upper.at(i, some));
  return where(moving, row.kind == Budget::Softmax ? own : all(1), Lanes{});
}

/// y_bar and total_bar in two passes. False if no entry is free.
template <class T>
bool quick_vjp(const RowOf<T>& row, const T* x, const T* x_bar, const BudgetTangent<T>& gradient) {
  return with_limits(row, [&](const auto& lower, const auto& upper) {
    const auto all_entries = sweep_row<Weighted>(row.n, row.threads, [&](Index i, auto some, Weighted& s) {
      const Lanes w = weights_at(row, x, lower, upper, i, some);
      s.weights += w;
      s.sum += w * load(x_bar + i, some);
    });
    if (!(sum(all_entries.weights) > 0)) return false;
    const double mean = sum(all_entries.sum) / sum(all_entries.weights);
    put(gradient.total, 0, mean);
    if (gradient.y == nullptr) return true;
    for_pieces(row.n, row.threads, [&](Index begin, Index end, Index /*piece*/) {
      struct Nothing {
        void add(const Nothing& /*other*/) {}
      };
      sweep<Nothing>(begin, end, [&](Index i, auto some, Nothing& /*sums*/) {
        const Lanes w = weights_at(row, x, lower, upper, i, some);
        store(gradient.y + i, w * (load(x_bar + i, some) - mean), some);  // (B5)
      });
    });
    return true;
  });
}

/// w, and the shares that move with a limit, of a row.
template <class T>
class RowWeights {
 public:
  RowWeights(const RowOf<T>& row, const BudgetRow& state, const T* x, RowScratch& scratch)
      : row_(row), x_(x), moving_(scratch.room(2 * row.n)), above_(moving_ + row.n) {
    row_shares(row, state, x, moving_, above_);
    for (Index i = 0; i < row.n; ++i) sum_ += of_y(i);
  }

  [[nodiscard]] double of_y(Index i) const {  // (B4)
    return row_.kind == Budget::Softmax ? moving_[i] * static_cast<double>(x_[i]) : moving_[i];
  }
  [[nodiscard]] double of_upper(Index i) const { return above_[i]; }
  [[nodiscard]] double of_lower(Index i) const { return 1 - moving_[i] - above_[i]; }
  [[nodiscard]] double sum() const { return sum_; }

 private:
  const RowOf<T>& row_;
  const T* x_;
  double *moving_, *above_;
  double sum_ = 0;
};

template <class T>
void full_vjp(const RowOf<T>& row, const RowWeights<T>& w, const T* x_bar, const BudgetTangent<T>& gradient) {
  const bool moves = w.sum() > 0;
  double mean = 0;
  for (Index i = 0; i < row.n; ++i) mean += (moves ? w.of_y(i) : 1) * static_cast<double>(x_bar[i]);
  mean /= moves ? w.sum() : static_cast<double>(row.n + 1);  // nothing moves: the least multipliers
  for (Index i = 0; i < row.n; ++i) {                        // (B5)
    const double d = static_cast<double>(x_bar[i]) - mean;
    put(gradient.y, i, w.of_y(i) * d);
    put(gradient.lower, i, w.of_lower(i) * d);
    put(gradient.upper, i, w.of_upper(i) * d);
  }
  put(gradient.total, 0, mean);
}

template <class T>
void fill(const BudgetTangent<T>& target, Index n, T value) {
  for (T* data : {target.y, target.lower, target.upper})
    if (data != nullptr) std::fill_n(data, n, value);
  put(target.total, 0, static_cast<double>(value));
}

template <class T>
void full_jvp(const RowOf<T>& row, const RowWeights<T>& w, const BudgetTangent<const T>& dot, T* x_dot) {
  const bool moves = w.sum() > 0;
  const auto pushed = [&](Index i) {
    return w.of_y(i) * number(dot.y, i) + w.of_lower(i) * number(dot.lower, i) +
           w.of_upper(i) * number(dot.upper, i);
  };
  double level = -number(dot.total, 0);
  for (Index i = 0; i < row.n; ++i) level += pushed(i);
  level /= moves ? w.sum() : static_cast<double>(row.n + 1);
  for (Index i = 0; i < row.n; ++i)  // (B6)
    x_dot[i] = static_cast<T>(pushed(i) - (moves ? w.of_y(i) : 1) * level);
}

}  // namespace

template <class T>
void vjp(const BudgetProgram<T>& program, const T* x, const BudgetRow* states, const T* x_bar,
         const BudgetTangent<T>& gradient, T missing) {
  const Index n = program.n;
  for_rows(program, [&](const RowOf<T>& row, Index r, RowScratch& scratch) {
    const BudgetTangent<T> target = of_row(gradient, r, n);
    const T* own_bar = x_bar + r * n;
    const T* own = x + r * n;
    if (!is_solved(states[r])) {
      const bool zero = std::all_of(own_bar, own_bar + n, [](T value) { return value == 0; });
      fill(target, n, zero ? T(0) : missing);
      return;
    }
    const bool quick = states[r].touching == 0 && target.lower == nullptr && target.upper == nullptr;
    if (quick && quick_vjp(row, own, own_bar, target)) return;
    full_vjp(row, RowWeights<T>(row, states[r], own, scratch), own_bar, target);
  });
}

template <class T>
void jvp(const BudgetProgram<T>& program, const T* x, const BudgetRow* states,
         const BudgetTangent<const T>& dot, T* x_dot, T missing) {
  const Index n = program.n;
  for_rows(program, [&](const RowOf<T>& row, Index r, RowScratch& scratch) {
    T* target = x_dot + r * n;
    if (!is_solved(states[r])) {
      std::fill_n(target, n, missing);
      return;
    }
    full_jvp(row, RowWeights<T>(row, states[r], x + r * n, scratch), of_row(dot, r, n), target);
  });
}

template <class T>
void shares(const BudgetProgram<T>& program, const T* x, const BudgetRow* states, T* moving, T* above) {
  const Index n = program.n;
  for_rows(program, [&](const RowOf<T>& row, Index r, RowScratch& scratch) {
    double* numbers = scratch.room(2 * n);
    if (is_solved(states[r])) {
      row_shares(row, states[r], x + r * n, numbers, numbers + n);
    } else {
      std::fill_n(numbers, 2 * n, 0.0);
    }
    std::transform(numbers, numbers + n, moving + r * n, [](double v) { return static_cast<T>(v); });
    std::transform(numbers + n, numbers + 2 * n, above + r * n, [](double v) { return static_cast<T>(v); });
  });
}

template void vjp(const BudgetProgram<float>&, const float*, const BudgetRow*, const float*,
                  const BudgetTangent<float>&, float);
template void vjp(const BudgetProgram<double>&, const double*, const BudgetRow*, const double*,
                  const BudgetTangent<double>&, double);
template void jvp(const BudgetProgram<float>&, const float*, const BudgetRow*,
                  const BudgetTangent<const float>&, float*, float);
template void jvp(const BudgetProgram<double>&, const double*, const BudgetRow*,
                  const BudgetTangent<const double>&, double*, double);
template void shares(const BudgetProgram<float>&, const float*, const BudgetRow*, float*, float*);
template void shares(const BudgetProgram<double>&, const double*, const BudgetRow*, double*, double*);

}  // namespace altdiff
