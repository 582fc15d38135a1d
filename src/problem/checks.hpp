#pragma once

#include <altdiff/problem.hpp>
#include <altdiff/settings.hpp>
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace altdiff::detail {

/// A part of a message.
[[nodiscard]] inline std::string words(std::string_view text) { return std::string(text); }
[[nodiscard]] inline std::string words(std::integral auto number) { return std::to_string(number); }
[[nodiscard]] std::string words(double number);

[[noreturn]] void refuse(std::initializer_list<std::string> message);

/// The caller's mistake: throws std::invalid_argument with a message that names the field. The message is
/// put together only then: for a small problem that takes longer than to solve it.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) refuse({words(parts)...});
}

/// Throws unless the program's shapes agree and its numbers make sense: no NaN, no infinite P, q, G, A, b,
/// h > -inf, lb <= ub.
template <Matrix M>
void check(const QuadraticProgram<M>& qp);

/// The part of it that is about G x <= h, A x = b and lb <= x <= ub.
template <Matrix M>
void check_constraints(const M& G, const Vector& h, const M& A, const Vector& b, const Vector& lb,
                       const Vector& ub, Index n);

void check(const Settings& settings);

/// The same program in the form that the algorithms expect: P symmetric, absent blocks with zero rows and n
/// columns, absent bounds infinite, sparse matrices compressed.
template <Matrix M>
[[nodiscard]] QuadraticProgram<M> normalised(const QuadraticProgram<M>& qp);

/// The same point with absent members zero; throws if a size is wrong. `what` names the argument.
[[nodiscard]] Point filled(const Point& point, Index n, Index p, Index m, const std::string& what);

extern template void check(const QuadraticProgram<DenseMatrix>&);
extern template void check(const QuadraticProgram<SparseMatrix>&);
extern template void check_constraints(const DenseMatrix&, const Vector&, const DenseMatrix&, const Vector&,
                                       const Vector&, const Vector&, Index);
extern template void check_constraints(const SparseMatrix&, const Vector&, const SparseMatrix&, const Vector&,
                                       const Vector&, const Vector&, Index);
extern template QuadraticProgram<DenseMatrix> normalised(const QuadraticProgram<DenseMatrix>&);
extern template QuadraticProgram<SparseMatrix> normalised(const QuadraticProgram<SparseMatrix>&);

}  // namespace altdiff::detail
