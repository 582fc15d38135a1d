#include "smooth/held_ends.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "batch/linearisation.hpp"
#include "objectives/terms.hpp"

namespace altdiff::detail {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

HeldEnds::HeldEnds(const SmoothProgram& user) : user_(user) {
  const BatchProgram& constraints = user.constraints;
  if (constraints[Field::lb].data == nullptr && constraints[Field::ub].data == nullptr) return;
  for (const Term& term : user.terms) {
    const Phi phi{.kind = term.kind};
    const bool endless = std::isinf(phi.lower()) && std::isinf(phi.upper());
    if (term.kind == TermKind::Quadratic || term.map.data != nullptr || endless) continue;
    for (Index i = 0; i < constraints.size; ++i) look_at(term, i);
  }
}

void HeldEnds::look_at(const Term& term, Index i) {
  const Index n = user_.constraints.n;
  const VectorsView bounds = instance_of(user_.constraints, i).vectors();
  const InstanceTerm own(term, i, n);
  for (Index j = 0; j < n; ++j) {
    if (!own.present(j)) continue;
    const double lb = bounds.lb.size() > 0 ? bounds.lb[j] : -infinity;
    const double ub = bounds.ub.size() > 0 ? bounds.ub[j] : infinity;
    const double offset = own.offset() != nullptr ? own.offset()[j] : 0;
    const double lower = offset + own.phi().lower();
    const double upper = offset + own.phi().upper();
    if (own.phi().closed() && lb < ub && (ub == lower || lb == upper)) {
      set(j, i, ub == lower ? ub : lb, ub == lower ? ub : lb);
    } else {
      const bool idle_lb = std::isfinite(lb) && lb <= lower && ub > lower;
      const bool idle_ub = std::isfinite(ub) && ub >= upper && lb < upper;
      if (idle_lb || idle_ub) set(j, i, idle_lb ? -infinity : lb, idle_ub ? infinity : ub);
    }
  }
}

void HeldEnds::set(Index j, Index i, double lb, double ub) {
  if (!changed_) copy_bounds();
  lb_(j, i) = lb;
  ub_(j, i) = ub;
}

void HeldEnds::copy_bounds() {
  changed_ = true;
  const BatchProgram& constraints = user_.constraints;
  own_ = user_;
  lb_.setConstant(constraints.n, constraints.size, -infinity);
  ub_.setConstant(constraints.n, constraints.size, infinity);
  for (Index i = 0; i < constraints.size; ++i) {
    const VectorsView bounds = instance_of(constraints, i).vectors();
    if (bounds.lb.size() > 0) lb_.col(i) = bounds.lb;
    if (bounds.ub.size() > 0) ub_.col(i) = bounds.ub;
  }
  own_.constraints[Field::lb] = {.data = lb_.data(), .count = constraints.size};
  own_.constraints[Field::ub] = {.data = ub_.data(), .count = constraints.size};
}

void HeldEnds::restore(BatchProgram& constraints) const {
  constraints[Field::lb] = user_.constraints[Field::lb];
  constraints[Field::ub] = user_.constraints[Field::ub];
}

}  // namespace altdiff::detail
