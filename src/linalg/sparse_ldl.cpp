#include "linalg/sparse_ldl.hpp"

namespace altdiff::detail {

namespace {

constexpr double worth_blocks = 40;  // multiplications for every entry of L (measured)

std::variant<SimplicialPattern, SupernodalPattern> make_pattern(const SparseMatrix& upper,
                                                                const Elimination& order) {
  if (order.work() < worth_blocks * order.fill()) return SimplicialPattern(upper, order);
  return SupernodalPattern(upper, order);
}

std::variant<SimplicialLdl, SupernodalLdl> make_factor(const LdlPattern& pattern) {
  if (const auto* by_rows = std::get_if<SimplicialPattern>(&pattern.factor)) return SimplicialLdl(*by_rows);
  return SupernodalLdl(std::get<SupernodalPattern>(pattern.factor));
}

template <class Factor>
const typename Factor::Pattern& pattern_for(const Factor& /*factor*/, const LdlPattern& pattern) {
  return std::get<typename Factor::Pattern>(pattern.factor);
}

}  // namespace

LdlPattern::LdlPattern(const SparseMatrix& upper) : order(upper), factor(make_pattern(upper, order)) {}

SparseLdl::SparseLdl(std::shared_ptr<const LdlPattern> pattern)
    : pattern_(std::move(pattern)), factor_(make_factor(*pattern_)), fill_(pattern_->order.fill()) {}

bool SparseLdl::factorise(const double* values, Index positive) {
  return std::visit(
      [&](auto& factor) {
        return factor.factorise(pattern_for(factor, *pattern_), pattern_->order, values, positive);
      },
      factor_);
}

void SparseLdl::solve(double* b, Index count, double* workspace) const {
  const std::vector<int>& old_of_new = pattern_->order.old_of_new;
  if (count == 1) {
    for (std::size_t k = 0; k < old_of_new.size(); ++k) workspace[k] = b[old_of_new[k]];
    std::visit([&](const auto& factor) { factor.solve(pattern_for(factor, *pattern_), workspace); }, factor_);
    for (std::size_t k = 0; k < old_of_new.size(); ++k) b[old_of_new[k]] = workspace[k];
    return;
  }
  double* row = workspace;
  for (const int old : old_of_new) row = std::copy_n(b + count * old, count, row);
  std::get<SimplicialLdl>(factor_).solve_four(std::get<SimplicialPattern>(pattern_->factor), workspace);
  row = workspace;
  for (const int old : old_of_new) {
    std::copy_n(row, count, b + count * old);
    row += count;
  }
}

}  // namespace altdiff::detail
