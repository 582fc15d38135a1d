#include "smooth/held_ends.hpp"

#include <algorithm>
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
    if (term.map.data != nullptr || !Phi{.kind = term.kind}.closed()) continue;
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
    const bool low = ub == offset + own.phi().lower() && lb < ub;
    const bool high = lb == offset + own.phi().upper() && lb < ub;
    if (!low && !high) continue;
    if (!changed_) copy_bounds();
    (low ? lb_ : ub_)(j, i) = low ? ub : lb;
  }
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
