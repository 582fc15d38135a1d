#pragma once

#include <altdiff/matrix.hpp>
#include <altdiff/solution.hpp>
#include <limits>

namespace altdiff {

/// What is minimised over {sum x = total, lower <= x <= upper}, row by row:                             (B1)
enum class Budget {
  Sparsemax,  ///< |x - y|^2
  Softmax,    ///< -y'x + sum x log x; lower must not be negative
};

/// A limit of a batch of rows: one number, or numbers of the caller's, which belong to row r and entry i at
/// data[r * row_stride + i * stride]. `stride` is 1, or 0 if a row's entries share one number.
template <class T>
struct BudgetLimit {
  T value{};  ///< if there are no data
  const T* data = nullptr;
  Index row_stride = 0;
  Index stride = 0;
};

/// A batch of (B1) in float or double, row after row. -inf in y is a masked entry: x is `lower` there.
template <class T>
struct BudgetProgram {
  Budget kind = Budget::Sparsemax;
  Index rows = 0, n = 0;
  const T* y = nullptr;
  BudgetLimit<T> lower{};
  BudgetLimit<T> upper{.value = std::numeric_limits<T>::infinity()};
  BudgetLimit<T> total{.value = T(1)};  ///< no stride: one number a row
  int num_threads = 0;                  ///< 0: all that are available
};

/// What a solve says of a row, and its derivatives need. Doubles, so that a library of tensors can keep it.
struct BudgetRow {
  double status = 0;  ///< a Status: Solved, PrimalInfeasible, InvalidData or NumericalError
  double base = 0;    ///< tau of (B2) is base + level
  double level = 0;
  double touching = 0;  ///< entries that touch a limit without being held by it: x has a kink
};

/// Where derivatives with respect to a limit go, or come from: an entry for every entry of x; null: none.
template <class T>
struct BudgetTangent {
  T* y = nullptr;
  T* lower = nullptr;
  T* upper = nullptr;
  T* total = nullptr;  ///< one number a row
};

/// Writes `rows` times `n` numbers of x, and one of `states` for each row. Returns how many rows have no
/// solution: their x is NaN. The answers do not depend on the number of threads.
template <class T>
[[nodiscard]] Index solve(const BudgetProgram<T>& program, T* x, BudgetRow* states);

/// Gradients of a loss with the gradient `x_bar`; `missing` stands for those of rows without a solution,
/// unless x_bar is zero there.
template <class T>
void vjp(const BudgetProgram<T>& program, const T* x, const BudgetRow* states, const T* x_bar,
         const BudgetTangent<T>& gradient, T missing = std::numeric_limits<T>::quiet_NaN());

/// The change of x under changes of the data; null: none.
template <class T>
void jvp(const BudgetProgram<T>& program, const T* x, const BudgetRow* states,
         const BudgetTangent<const T>& dot, T* x_dot, T missing = std::numeric_limits<T>::quiet_NaN());

/// How much of each entry moves freely (1, or 0 at a limit, or between at a kink), and how much with its
/// upper limit; the rest moves with the lower one.
template <class T>
void shares(const BudgetProgram<T>& program, const T* x, const BudgetRow* states, T* moving, T* above);

}  // namespace altdiff
