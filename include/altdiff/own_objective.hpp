#pragma once

#include <altdiff/alternating_differentiation.hpp>
#include <altdiff/smooth.hpp>

namespace altdiff {

/// The terms of one instance as an Objective.
class TermObjective {
 public:
  using Hessian = DenseMatrix;
  /// In each direction a change of the fields of every term, or of grad f itself.
  struct Tangent {
    std::vector<std::vector<Term>> changes{};
    DenseMatrix q{};  ///< n rows, one column a direction
    [[nodiscard]] Index directions() const {
      if (q.size() > 0) return q.cols();
      return changes.empty() ? -1 : static_cast<Index>(changes.size());
    }
  };
  static constexpr bool constant_hessian = false;

  TermObjective(std::vector<Term> terms, Index n, Index instance = 0);

  [[nodiscard]] Vector start() const;
  [[nodiscard]] double value(const Vector& x) const;
  [[nodiscard]] double largest_step(const Vector& x, const Vector& d) const;
  void gradient(const Vector& x, Vector& g) const;
  void hessian(const Vector& x, DenseMatrix& H) const;
  void add_cross(const Vector& x, const Tangent& dtheta, Eigen::Ref<DenseMatrix> block) const;

 private:
  std::vector<Term> terms_;
  Index n_, instance_;
};

static_assert(Objective<TermObjective>);

namespace detail {
struct OwnProgram;
}

/// As Solution, for an objective of any type.
struct ObjectiveSolution : Answer {
  std::shared_ptr<const detail::OwnProgram> program{};
};

/// Gradients of a loss.
struct ObjectiveGradient {
  Constraints<DenseMatrix> constraints{};
  Vector u{};  ///< with respect to a change of grad f(x): theta's is (d grad f / d theta)'u
};

namespace detail {
[[nodiscard]] ObjectiveSolution solve(const ErasedObjective<DenseMatrix>& f,
                                      const Constraints<DenseMatrix>& constraints, const Settings& settings,
                                      const Point& initial);
}

/// minimise f(x) over the constraints, where f is any Objective with a dense Hessian, of the user's own type
/// too. Begins at f.start(), or at `initial`.
template <Objective F>
  requires std::same_as<typename F::Hessian, DenseMatrix>
[[nodiscard]] ObjectiveSolution solve(const F& f, const Constraints<DenseMatrix>& constraints,
                                      const Settings& settings = {}, const Point& initial = {}) {
  return detail::solve(detail::erased(f, typename F::Tangent{}), constraints, settings, initial);
}

/// Given the loss's gradients with respect to the solution (any member of `bar` may be empty: zero) and to
/// the objective. To the part that theta has in the objective's the user adds objective_bar (d f / d theta).
[[nodiscard]] ObjectiveGradient vjp(const ObjectiveSolution& solution, const Point& bar,
                                    double objective_bar = 0);

}  // namespace altdiff
