#pragma once

#include <cmath>
#include <limits>

#include "engines/active_set/proximal.hpp"
#include "random_problems.hpp"

namespace altdiff::test {

/// The variables that have a bound.
inline std::vector<Index> bounded_variables(const QuadraticProgram<>& qp) {
  std::vector<Index> variables;
  for (Index j = 0; j < qp.n(); ++j)
    if ((qp.lb.size() > 0 && std::isfinite(qp.lb[j])) || (qp.ub.size() > 0 && std::isfinite(qp.ub[j])))
      variables.push_back(j);
  return variables;
}

/// A program, its matrices row after row, and their constraint space. It stays where it was made.
struct InConstraintSpace {
  explicit InConstraintSpace(const QuadraticProgram<>& program)
      : qp(program),
        G_rows(program.G.transpose()),
        A_rows(program.A.transpose()),
        bounded(bounded_variables(program)),
        own(matrices(), bounded) {}
  InConstraintSpace(const InConstraintSpace&) = delete;
  InConstraintSpace& operator=(const InConstraintSpace&) = delete;

  [[nodiscard]] const detail::ConstraintSpace& space() const { return own.space; }
  [[nodiscard]] detail::MatricesView matrices() const {
    return {.n = qp.n(), .m = qp.m(), .p = qp.p(), .P = qp.P.data(), .G = G_rows.data(), .A = A_rows.data()};
  }
  [[nodiscard]] detail::Instance instance() const {
    return {.matrices = matrices(),
            .space = &own.space,
            .q = qp.q.data(),
            .b = qp.b.data(),
            .h = qp.h.data(),
            .lb = qp.lb.size() > 0 ? qp.lb.data() : nullptr,
            .ub = qp.ub.size() > 0 ? qp.ub.data() : nullptr};
  }
  /// [G; I_B]
  [[nodiscard]] DenseMatrix rows() const {
    const auto count = static_cast<Index>(bounded.size());
    DenseMatrix C = DenseMatrix::Zero(qp.m() + count, qp.n());
    if (qp.m() > 0) C.topRows(qp.m()) = qp.G;
    for (Index i = 0; i < count; ++i) C(qp.m() + i, bounded[static_cast<std::size_t>(i)]) = 1;
    return C;
  }

  QuadraticProgram<> qp;
  DenseMatrix G_rows, A_rows;
  std::vector<Index> bounded;
  detail::OwnSpace own;
};

/// What is left of a program in constraint space, with the numbers that it points to.
class InDualSpace : public InConstraintSpace {
 public:
  explicit InDualSpace(const QuadraticProgram<>& program) : InConstraintSpace(program) {
    const Index k = space().inequalities();
    DenseMatrix w = -qp.q;
    DenseMatrix t_E = qp.b;
    t_.resize(k, 1);
    space().reduce(w, t_E, t_);
    size_ = w.norm() + t_E.topRows(space().equalities()).norm();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    lower_ = Vector::Constant(k, -infinity);
    upper_ = Vector::Constant(k, infinity);
    upper_.head(qp.m()) = qp.h;
    for (std::size_t i = 0; i < bounded.size(); ++i) {
      const Index row = qp.m() + static_cast<Index>(i);
      if (qp.lb.size() > 0) lower_[row] = qp.lb[bounded[i]];
      if (qp.ub.size() > 0) upper_[row] = qp.ub[bounded[i]];
    }
    bottom_ = lower_;
    ceiling_ = upper_;
    for (Index i = 0; i < k; ++i) {
      bottom_[i] -= detail::rounding_of_row(size_, space().lengths()[i], lower_[i]);
      ceiling_[i] += detail::rounding_of_row(size_, space().lengths()[i], upper_[i]);
    }
  }

  [[nodiscard]] detail::DualProgram program() const {
    return {.k = space().inequalities(),
            .M = space().M(),
            .stride = space().M_stride(),
            .t = t_.data(),
            .lower = lower_.data(),
            .upper = upper_.data(),
            .bottom = bottom_.data(),
            .ceiling = ceiling_.data(),
            .lengths = space().lengths(),
            .size = size_};
  }
  /// How many rows can be independent.
  [[nodiscard]] Index most() const { return qp.n() - space().equalities(); }

  [[nodiscard]] detail::DualState empty_set() const {
    detail::DualState state;
    state.side.resize(static_cast<std::size_t>(space().inequalities()));
    for (Index i = 0; i < space().inequalities(); ++i)
      if (lower_[i] == upper_[i]) state.side[static_cast<std::size_t>(i)] = 1;
    return state;
  }
  /// Every limit that there is, with the given chance.
  [[nodiscard]] detail::DualState random_set(Random& random, double chance) const {
    detail::DualState state = empty_set();
    for (Index i = 0; i < space().inequalities(); ++i) {
      const bool limited = std::isfinite(lower_[i]) || std::isfinite(upper_[i]);
      if (random.uniform() > chance || !limited) continue;
      const bool above = !std::isfinite(lower_[i]) || (std::isfinite(upper_[i]) && random.uniform() < 0.5);
      state.side[static_cast<std::size_t>(i)] = above ? 1 : -1;
    }
    return state;
  }

 private:
  DenseMatrix t_{};
  Vector lower_{}, upper_{}, bottom_{}, ceiling_{};
  double size_ = 0;
};

}  // namespace altdiff::test
