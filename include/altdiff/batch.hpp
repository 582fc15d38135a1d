#pragma once

#include <altdiff/settings.hpp>
#include <altdiff/solution.hpp>
#include <array>
#include <vector>

namespace altdiff {

/// One field of a batch of dense programs: arrays of one shape, one after another, each row after row (as
/// NumPy and torch store them). A single array is shared by all instances, as many as there are instances are
/// each instance's own, and `which` says for anything between.
struct BatchField {
  const double* data = nullptr;  ///< null: absent
  Index count = 1;               ///< arrays
  const Index* which = nullptr;  ///< of each instance, the array that it uses

  [[nodiscard]] Index of(Index instance) const {
    if (which != nullptr) return which[instance];
    return count == 1 ? 0 : instance;
  }
};

/// A batch of (QP): the fields in the order of `Field`. The arrays belong to the caller, and stay where they
/// are as long as a solution of the batch is differentiated.
struct BatchProgram {
  Index size = 0;  ///< instances
  Index n = 0, m = 0, p = 0;
  std::array<BatchField, 8> fields{};

  [[nodiscard]] const BatchField& operator[](Field field) const {
    return fields[static_cast<std::size_t>(field)];
  }
  [[nodiscard]] bool has_bounds() const {
    return (*this)[Field::lb].data != nullptr || (*this)[Field::ub].data != nullptr;
  }
  BatchField& operator[](Field field) { return fields[static_cast<std::size_t>(field)]; }
};

namespace detail {
class BatchLinearisation;
}

/// One column of `point`, and one entry of everything else, is one instance; see Solution for what they mean.
/// `point.z_box` has no rows if the program has no bounds.
struct BatchSolution {
  PointBlock point{};
  std::vector<Status> status{};
  Vector objective{};
  std::vector<std::int64_t> iterations{};
  Vector primal_residual{}, dual_residual{}, duality_gap{};
  std::vector<std::uint8_t> degenerate{}, unique{};
  Vector margin{};
  std::shared_ptr<const detail::BatchLinearisation> linearisation{};
};

/// A loss's gradient with respect to a batch of solutions, instance after instance; null: zero.
struct BatchCotangent {
  const double* x = nullptr;
  const double* y = nullptr;
  const double* z = nullptr;
  const double* z_box = nullptr;
  const double* objective = nullptr;
};

/// Where to put the gradient of each field, in the order of `Field`: as many arrays as the field has; null:
/// not wanted. An array that several instances use gets the sum over them.
using BatchGradient = std::array<double*, 8>;

/// What stands for the derivative of an instance that has none.
struct Missing {
  double value = std::numeric_limits<double>::quiet_NaN();
  bool unless_solved = false;  ///< true: an instance that stopped early has none either

  /// Whether an instance has a derivative of its own: it has a factor, whatever its status, unless only those
  /// that are solved count. Dense, sparse and convex batches all ask here.
  [[nodiscard]] bool differentiable(bool has_factor, Status status) const {
    return has_factor && (!unless_solved || status == Status::Solved);
  }
};

/// Solves every instance; matrices that instances share are factorised once. An instance with NaN, a
/// forbidden infinity or lb > ub gets the status InvalidData, and leaves the others alone. The answers do not
/// depend on the number of threads. `initial` (one column an instance, NaN where nothing is known) may be
/// empty.
[[nodiscard]] BatchSolution solve(const BatchProgram& program, const Settings& settings = {},
                                  const PointBlock& initial = {});

/// What was found of one instance; z_box is zero where there are no bounds.
[[nodiscard]] Answer answer_of(const BatchSolution& batch, Index instance);

/// Gradients of a loss. An instance whose cotangents are all zero adds nothing, whatever its status.
void vjp(const BatchProgram& program, const BatchSolution& solution, const BatchCotangent& bar,
         const BatchGradient& gradient, const Missing& missing = {}, int num_threads = 0);

/// Change of the solutions under a change of the fields (absent: none).
[[nodiscard]] PointBlock jvp(const BatchProgram& program, const BatchSolution& solution,
                             const BatchProgram& dot, const Missing& missing = {}, int num_threads = 0);

/// The part of each column along which that instance's x can move without cost, where x is the least of many
/// (L2); zero where x is the only one, or has no derivative.
[[nodiscard]] DenseMatrix flat_part(const BatchSolution& solution, const DenseMatrix& v,
                                    const Missing& missing = {}, int num_threads = 0);

/// dx/d(field) of every instance, n rows after each other; field is one of q, h, b, lb, ub.
[[nodiscard]] std::vector<double> jacobian(const BatchProgram& program, const BatchSolution& solution,
                                           Field field, const Missing& missing = {}, int num_threads = 0);

}  // namespace altdiff
