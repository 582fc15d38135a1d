#pragma once

#include <altdiff/smooth.hpp>
#include <array>
#include <map>

#include "linalg/memory.hpp"
#include "objectives/terms.hpp"

namespace altdiff::detail {

/// The quadratic programs with P = H(x), q = grad f(x) - H x over the user's constraints: at a solution x of
/// (N1) they have the same solution, multipliers and derivatives.                                      (N2)
class EquivalentProgram {
 public:
  BatchProgram program;  // P and q are absent until somebody needs them

  explicit EquivalentProgram(const BatchProgram& constraints) : program(constraints) {}
  EquivalentProgram(const EquivalentProgram&) = delete;
  EquivalentProgram& operator=(const EquivalentProgram&) = delete;
  EquivalentProgram(EquivalentProgram&&) = delete;
  EquivalentProgram& operator=(EquivalentProgram&&) = delete;
  ~EquivalentProgram() = default;

  /// Takes memory for P and q, which are every instance's own.
  void allocate() {
    hessians_ = Memory(program.size * program.n * program.n);
    q.setZero(program.n, program.size);
    program[Field::P] = {.data = hessians_.data(), .count = program.size};
    program[Field::q] = {.data = q.data(), .count = program.size};
  }

  DenseMatrix q{};  // one column an instance

  /// Of instances whose rows are known better than x tells: by the place of a term.
  std::map<Index, std::vector<RowSlopes>> rows{};
  [[nodiscard]] const RowSlopes* rows_of(Index i, std::size_t term) const {
    const auto known = rows.find(i);
    return known == rows.end() || known->second[term].first.size() == 0 ? nullptr : &known->second[term];
  }

  [[nodiscard]] double* hessians() const { return hessians_.data(); }
  [[nodiscard]] double* hessian(Index i) const { return hessians_.data() + i * program.n * program.n; }

 private:
  Memory hessians_{};
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
  Subset(Subset&&) = delete;
  Subset& operator=(Subset&&) = delete;
  ~Subset() = default;

  BatchProgram program;

 private:
  std::array<std::vector<Index>, 8> which_{};
};

}  // namespace altdiff::detail
