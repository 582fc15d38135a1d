#include "batch/grouping.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

Grouping::Grouping(const BatchProgram& program) : of(at(program.size)) {
  const auto matrices = {program[Field::P], program[Field::G], program[Field::A]};
  const auto own = [&](const BatchField& field) { return field.count > 1 && field.which == nullptr; };
  if (std::ranges::any_of(matrices, own)) {
    std::iota(of.begin(), of.end(), Index{0});
    spaces = program.size;
    return;
  }
  if (std::ranges::all_of(matrices, [](const BatchField& field) { return field.count == 1; })) {
    spaces = std::min<Index>(program.size, 1);
    return;
  }
  std::map<std::array<Index, 3>, Index> known;
  for (Index i = 0; i < program.size; ++i) {
    const std::array<Index, 3> key{program[Field::P].of(i), program[Field::G].of(i), program[Field::A].of(i)};
    of[at(i)] = known.try_emplace(key, static_cast<Index>(known.size())).first->second;
  }
  spaces = static_cast<Index>(known.size());
}

std::vector<Index> bounded_variables(const BatchProgram& program) {
  std::vector<std::uint8_t> bounded(at(program.n));
  for (const Field field : {Field::lb, Field::ub}) {
    const BatchField& bound = program[field];
    for (Index a = 0; bound.data != nullptr && a < bound.count; ++a)
      for (Index j = 0; j < program.n; ++j)
        if (!never_binds(bound.data[a * program.n + j])) bounded[at(j)] = 1;
  }
  std::vector<Index> variables;
  for (Index j = 0; j < program.n; ++j)
    if (bounded[at(j)] != 0) variables.push_back(j);
  return variables;
}

bool valid_vectors(const Instance& instance) {
  const auto& data = instance.matrices;
  const auto limits = [](const double* limit, Index count, double forbidden) {
    for (Index i = 0; limit != nullptr && i < count; ++i)
      if (std::isnan(limit[i]) || limit[i] == forbidden) return false;
    return true;
  };
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if ((instance.q != nullptr && !all_finite(instance.q, data.n)) || !all_finite(instance.b, data.p))
    return false;
  if (!limits(instance.h, data.m, -infinite)) return false;
  if (!limits(instance.lb, data.n, infinite) || !limits(instance.ub, data.n, -infinite)) return false;
  for (Index j = 0; instance.lb != nullptr && instance.ub != nullptr && j < data.n; ++j)
    if (instance.lb[j] > instance.ub[j]) return false;
  return true;
}

bool valid_matrices(const MatricesView& data) {
  return all_finite(data.P, data.n * data.n) && all_finite(data.G, data.m * data.n) &&
         all_finite(data.A, data.p * data.n);
}

QuadraticProgram<DenseMatrix> program_of(const Instance& instance) {
  const auto& data = instance.matrices;
  const VectorsView vectors = instance.vectors();
  return {.P = data.P_rows(),
          .q = vectors.q,
          .G = data.G_rows().transpose(),
          .h = vectors.h,
          .A = data.A_rows().transpose(),
          .b = vectors.b,
          .lb = vectors.lb,
          .ub = vectors.ub};
}

}  // namespace altdiff::detail
