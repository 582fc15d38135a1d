#include "batch/kinks.hpp"

#include <algorithm>
#include <cmath>

namespace altdiff::detail {

namespace {

constexpr double small_beside_rows = 1e4;  // one over a P whose inverse makes rounding large
constexpr double doubtful = 1e-8;  // relative: ten times what (G1) calls degenerate, and (W2) is stricter

double largest(const auto& v) { return v.size() > 0 ? v.cwiseAbs().maxCoeff() : 0.0; }

/// What a slack and a multiplier of a row with entries of size one are compared with.
struct Sizes {
  double x, gradient;

  [[nodiscard]] bool near(double row, double limit, double slack, double multiplier) const {
    return std::isfinite(limit) && slack <= doubtful * (row * x + std::abs(limit)) &&
           row * multiplier <= doubtful * gradient;
  }
};

/// The largest finite one.
double largest_limit(const VectorsView& data, const Vector& rows) {
  double found = 0;
  const auto count = [&](double limit) {
    if (std::isfinite(limit)) found = std::max(found, std::abs(limit));
  };
  for (Index i = 0; i < data.h.size(); ++i) count(data.h[i] / rows[i]);
  for (const double bound : data.lb) count(bound);
  for (const double bound : data.ub) count(bound);
  return found;
}

Sizes sizes_of(const Instance& instance, const PointView& point, const Vector& rows) {
  const VectorsView data = instance.vectors();
  const double q = largest(data.q);
  const double P = largest(instance.matrices.P_rows().diagonal());
  // An x of zero has rounding of the size of what it was made of: limits, or a minimiser without them.
  const double limits = largest_limit(data, rows);
  const double around = P > 0 && (limits == 0 || q / P < limits) ? q / P : limits;
  return {.x = std::max(largest(point.x), around),
          .gradient = std::max({q, largest(point.z_box), largest(rows.cwiseProduct(point.z))})};
}

}  // namespace

bool near_a_kink(const Instance& instance, const PointView& point) {
  const VectorsView data = instance.vectors();
  const auto G = instance.matrices.G_rows();
  Vector rows(data.h.size());
  for (Index i = 0; i < rows.size(); ++i) rows[i] = largest(G.col(i));
  const Sizes sizes = sizes_of(instance, point, rows);
  for (Index i = 0; i < rows.size(); ++i)
    if (sizes.near(rows[i], data.h[i], data.h[i] - G.col(i).dot(point.x), point.z[i])) return true;
  const auto fixed = [&](Index j) {
    return data.lb.size() > 0 && data.ub.size() > 0 && data.lb[j] == data.ub[j];
  };
  for (Index j = 0; j < data.ub.size(); ++j)
    if (!fixed(j) && sizes.near(1, data.ub[j], data.ub[j] - point.x[j], point.z_box[j])) return true;
  for (Index j = 0; j < data.lb.size(); ++j)
    if (!fixed(j) && sizes.near(1, data.lb[j], point.x[j] - data.lb[j], -point.z_box[j])) return true;
  return false;
}

bool leaks_at_vertex(const Instance& instance, Index active) {
  const MatricesView& data = instance.matrices;
  if (active < data.n) return false;
  const double rows = std::max({1.0, largest(data.G_rows()), largest(data.A_rows())});
  return rows > small_beside_rows * data.P_rows().diagonal().minCoeff();
}

}  // namespace altdiff::detail
