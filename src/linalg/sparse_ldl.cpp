#include "linalg/sparse_ldl.hpp"

namespace altdiff::detail {

namespace {

constexpr double worth_blocks = 40;  // multiplications for every entry of L (measured)

using Factor = std::variant<SimplicialLdl, SupernodalLdl>;

Factor make_factor(const SparseMatrix& upper, const Elimination& order) {
  if (order.work() < worth_blocks * order.fill()) return SimplicialLdl(upper, order);
  return SupernodalLdl(upper, order);
}

}  // namespace

SparseLdl::SparseLdl(const SparseMatrix& upper) : order_(upper), factor_(make_factor(upper, order_)) {}

bool SparseLdl::factorise(const double* values, Index positive) {
  return std::visit([&](auto& factor) { return factor.factorise(values, positive, order_); }, factor_);
}

void SparseLdl::solve(double* b, double* workspace) const {
  const std::size_t n = order_.old_of_new.size();
  for (std::size_t k = 0; k < n; ++k) workspace[k] = b[order_.old_of_new[k]];
  std::visit([&](const auto& factor) { factor.solve(workspace); }, factor_);
  for (std::size_t k = 0; k < n; ++k) b[order_.old_of_new[k]] = workspace[k];
}

}  // namespace altdiff::detail
