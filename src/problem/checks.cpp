#include "problem/checks.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Numbers>
void require_finite(const Numbers& numbers, Index count, const std::string& name) {
  for (Index i = 0; i < count; ++i) {
    require(!std::isnan(numbers[i]), name, " holds NaN");
    require(std::isfinite(numbers[i]), name, " holds an infinite number; only h, lb and ub may");
  }
}

void require_finite(const DenseMatrix& X, const std::string& name) {
  require_finite(X.data(), X.size(), name);
}

void require_finite(const SparseMatrix& X, const std::string& name) {
  for (Index j = 0; j < X.outerSize(); ++j)
    for (SparseMatrix::InnerIterator it(X, j); it; ++it) require_finite(&it.valueRef(), 1, name);
}

/// A limit may be infinite on its open side only.
void require_limit(const Vector& limit, double forbidden, const std::string& name) {
  for (const double value : limit) {
    require(!std::isnan(value), name, " holds NaN");
    require(value != forbidden, name, " holds ", forbidden > 0 ? "+inf" : "-inf",
            ", which no x satisfies; leave a row out with the opposite sign");
  }
}

template <Matrix M>
void require_rows(const M& X, const Vector& right, Index n, const std::string& matrix,
                  const std::string& vector, const std::string& count) {
  require(X.rows() == right.size(), matrix, " and ", vector, " must have the same number of rows (", count,
          "), got ", X.rows(), " and ", right.size());
  require(X.rows() == 0 || X.cols() == n, matrix, " must have shape (", count, ", n) with n = ", n, ", got (",
          X.rows(), ", ", X.cols(), ")");
}

void require_bound_size(const Vector& bound, Index n, const std::string& name) {
  require(bound.size() == 0 || bound.size() == n, name, " must have n = ", n, " entries, got ", bound.size());
}

DenseMatrix symmetric_part(const DenseMatrix& P) { return 0.5 * (P + P.transpose()); }

SparseMatrix symmetric_part(const SparseMatrix& P) {
  const SparseMatrix transposed = P.transpose();
  SparseMatrix symmetric = 0.5 * (P + transposed);
  symmetric.makeCompressed();
  return symmetric;
}

DenseMatrix rows_or_none(const DenseMatrix& X, Index n) { return X.rows() == 0 ? DenseMatrix(0, n) : X; }

SparseMatrix rows_or_none(const SparseMatrix& X, Index n) {
  SparseMatrix rows = X.rows() == 0 ? SparseMatrix(0, n) : X;
  rows.makeCompressed();
  return rows;
}

Vector or_zero(const Vector& v, Index size, const std::string& name) {
  if (v.size() == 0) return Vector::Zero(size);
  require(v.size() == size, name, " must have ", size, " entries, got ", v.size());
  return v;
}

}  // namespace

std::string words(double number) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%g", number);
  return text.data();
}

void refuse(std::initializer_list<std::string> message) {
  throw std::invalid_argument(std::accumulate(message.begin(), message.end(), std::string()));
}

template <Matrix M>
void check_constraints(const M& G, const Vector& h, const M& A, const Vector& b, const Vector& lb,
                       const Vector& ub, Index n) {
  require_rows(G, h, n, "G", "h", "m");
  require_rows(A, b, n, "A", "b", "p");
  require_bound_size(lb, n, "lb");
  require_bound_size(ub, n, "ub");
  require_finite(G, "G");
  require_limit(h, -infinity, "h");
  require_finite(A, "A");
  require_finite(b.data(), b.size(), "b");
  require_limit(lb, infinity, "lb");
  require_limit(ub, -infinity, "ub");
  if (lb.size() == ub.size())
    for (Index j = 0; j < lb.size(); ++j)
      require(lb[j] <= ub[j], "lb must not exceed ub, but does at index ", j);
}

template <Matrix M>
void check(const QuadraticProgram<M>& qp) {
  const Index n = qp.n();
  require(n > 0, "q must have at least one entry: the problem is empty");
  require(qp.P.rows() == n && qp.P.cols() == n, "P must have shape (n, n) with n = ", n, " = len(q), got (",
          qp.P.rows(), ", ", qp.P.cols(), ")");
  require_finite(qp.P, "P");
  require_finite(qp.q.data(), n, "q");
  check_constraints<M>(qp.G, qp.h, qp.A, qp.b, qp.lb, qp.ub, n);
}

void check(const Settings& settings) {
  require(settings.tolerance > 0, "tolerance must be positive, got ", settings.tolerance);
  require(settings.gradient_tolerance > 0, "gradient_tolerance must be positive, got ",
          settings.gradient_tolerance);
  require(settings.max_iterations >= 0, "max_iterations must not be negative, got ", settings.max_iterations);
  require(settings.time_limit > 0, "time_limit must be positive, got ", settings.time_limit);
  require(settings.num_threads >= 0, "num_threads must not be negative, got ", settings.num_threads);
  require(settings.rho > 0 && std::isfinite(settings.rho), "rho must be positive and finite, got ",
          settings.rho);
}

template <Matrix M>
QuadraticProgram<M> normalised(const QuadraticProgram<M>& qp) {
  const Index n = qp.n();
  return {.P = symmetric_part(qp.P),
          .q = qp.q,
          .G = rows_or_none(qp.G, n),
          .h = qp.h,
          .A = rows_or_none(qp.A, n),
          .b = qp.b,
          .lb = qp.lb.size() > 0 ? qp.lb : Vector::Constant(n, -infinity),
          .ub = qp.ub.size() > 0 ? qp.ub : Vector::Constant(n, infinity)};
}

Point filled(const Point& point, Index n, Index p, Index m, const std::string& what) {
  return {.x = or_zero(point.x, n, "x" + what),
          .y = or_zero(point.y, p, "y" + what),
          .z = or_zero(point.z, m, "z" + what),
          .z_box = or_zero(point.z_box, n, "z_box" + what)};
}

template void check(const QuadraticProgram<DenseMatrix>&);
template void check(const QuadraticProgram<SparseMatrix>&);
template void check_constraints(const DenseMatrix&, const Vector&, const DenseMatrix&, const Vector&,
                                const Vector&, const Vector&, Index);
template void check_constraints(const SparseMatrix&, const Vector&, const SparseMatrix&, const Vector&,
                                const Vector&, const Vector&, Index);
template QuadraticProgram<DenseMatrix> normalised(const QuadraticProgram<DenseMatrix>&);
template QuadraticProgram<SparseMatrix> normalised(const QuadraticProgram<SparseMatrix>&);

}  // namespace altdiff::detail
