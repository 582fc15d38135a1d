#pragma once

#include <altdiff/smooth.hpp>
#include <array>

#include "linalg/memory.hpp"

namespace altdiff::detail {

/// The quadratic programs with P = H(x), q = grad f(x) - H x over the user's constraints: at a solution x of
/// (N1) they have the same solution, multipliers and derivatives.                                      (N2)
struct EquivalentProgram {
  BatchProgram program{};  // P and q are those below
  Memory hessians{};       // n x n each
  DenseMatrix q{};         // one column an instance

  explicit EquivalentProgram(const BatchProgram& constraints)
      : program(constraints),
        hessians(constraints.size * constraints.n * constraints.n),
        q(DenseMatrix::Zero(constraints.n, constraints.size)) {
    const Index own = constraints.size;  // one array for all is one for each in a batch of one
    program[Field::P] = {.data = hessians.data(), .count = own};
    program[Field::q] = {.data = q.data(), .count = own};
  }
  EquivalentProgram(const EquivalentProgram&) = delete;
  EquivalentProgram& operator=(const EquivalentProgram&) = delete;
  EquivalentProgram(EquivalentProgram&&) = delete;
  EquivalentProgram& operator=(EquivalentProgram&&) = delete;
  ~EquivalentProgram() = default;

  [[nodiscard]] double* hessian(Index i) const { return hessians.data() + i * program.n * program.n; }
};

/// Some instances of a batch as a batch of their own.
class Subset {
 public:
  Subset(const BatchProgram& all, const std::vector<Index>& instances) : program(all) {
    program.size = static_cast<Index>(instances.size());
    if (program.size == all.size) return;
    for (std::size_t f = 0; f < which_.size(); ++f) {
      BatchField& field = program.fields[f];
      if (field.data == nullptr || field.count == 1) continue;
      for (const Index i : instances) which_[f].push_back(all.fields[f].of(i));
      field.which = which_[f].data();
    }
  }
  Subset(const Subset&) = delete;
  Subset& operator=(const Subset&) = delete;

  BatchProgram program;

 private:
  std::array<std::vector<Index>, 8> which_{};
};

}  // namespace altdiff::detail
