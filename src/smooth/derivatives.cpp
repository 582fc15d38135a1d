#include <algorithm>
#include <altdiff/smooth.hpp>

#include "batch/pullback.hpp"
#include "linalg/at.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/pieces.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"
#include "objectives/terms.hpp"
#include "smooth/equivalent.hpp"

namespace altdiff {

namespace {

using namespace detail;

/// A field of a term: its arrays, how many numbers each has, and where its gradient goes.
struct FieldTarget {
  const BatchField& field;
  Index entries;
  double* target;

  [[nodiscard]] bool wanted() const { return target != nullptr && field.data != nullptr; }
  [[nodiscard]] bool own() const { return field.which == nullptr && field.count > 1; }
  [[nodiscard]] double* of(Index i) const { return wanted() ? target + field.of(i) * entries : nullptr; }
  void clear() const {
    if (wanted()) std::fill_n(target, field.count * entries, 0.0);
  }
  void add(Index i, double value) const {
    if (!wanted()) return;
    double* place = of(i);
    std::for_each(place, place + entries, [value](double& number) { number += value; });
  }
};

/// The change of a term's fields, as a term of the same kind.
Term with_shape_of(const Term& term, Term dot) {
  dot.kind = term.kind;
  dot.rows = term.rows;
  return dot;
}

std::array<FieldTarget, 5> targets_of(const Term& term, const TermGradient& gradient, Index n) {
  const Index weights = term.kind == TermKind::LogSumExp ? 1 : term.rows;
  return {{{.field = term.P, .entries = n * n, .target = gradient.P},
           {.field = term.q, .entries = n, .target = gradient.q},
           {.field = term.weight, .entries = weights, .target = gradient.weight},
           {.field = term.map, .entries = term.rows * n, .target = gradient.map},
           {.field = term.offset, .entries = term.rows, .target = gradient.offset}}};
}

/// Where x is the least of many, what turns it.
void add_turns(const Term& term, const EquivalentProgram& equivalent, std::size_t place,
               const std::array<FieldTarget, 5>& targets, const AdjointBlock& block) {
  for (const Turn& turn : block.turns) {
    const Index i = turn.column;
    const auto workspace = InstanceTerm::workspace(term.rows);
    InstanceTerm here(term, i, turn.flat.size());
    here.know_rows(equivalent.rows_of(i, place));
    here.pull_back_turned(block.point.x.col(i).data(), turn.flat.data(), turn.u->x.data(),
                          {.P = targets[0].of(i), .map = targets[3].of(i)}, *workspace);
  }
}

/// (N6) of all instances; arrays that several use get the sum, in the order of the instances.
void write_term(const Term& term, const EquivalentProgram& equivalent, std::size_t place,
                const TermGradient& gradient, const BatchAdjoint& adjoint, int num_threads) {
  const AdjointBlock block = adjoint.block();
  const ConstBlock& x = block.point.x;
  const ConstBlock& u = block.adjoint.x;
  const Index n = x.rows();
  const auto targets = targets_of(term, gradient, n);
  if (std::ranges::none_of(targets, &FieldTarget::wanted)) return;
  std::ranges::for_each(targets, &FieldTarget::clear);
  std::vector<std::uint8_t> left_out(at(x.cols()));
  for (std::size_t f = 0; f < adjoint.filled.size(); ++f) {
    left_out[at(adjoint.filled[f])] = 1;
    for (const FieldTarget& target : targets) target.add(adjoint.filled[f], adjoint.filler[f]);
  }
  const bool own = std::ranges::all_of(targets, [](const FieldTarget& t) { return !t.wanted() || t.own(); });
  const auto chunks = own ? std::min<Index>(x.cols(), 32) : std::min<Index>(x.cols(), 1);
  parallel_for(chunks, threads_for(num_threads, x.size() * (term.rows + n)), [&](Index chunk) {
    const auto workspace = InstanceTerm::workspace(term.rows);
    for (Index i = chunk; i < x.cols(); i += chunks) {
      check_interrupt(multiplications(n, term.rows + n, 1));
      const double bar = block.objective_bar.size() > 0 ? block.objective_bar[i] : 0;
      if (left_out[at(i)] != 0 || (bar == 0 && u.col(i).isZero(0))) continue;
      InstanceTerm here(term, i, n);
      here.know_rows(equivalent.rows_of(i, place));
      here.pull_back(x.data() + i * n, u.data() + i * n, bar,
                     {.P = targets[0].of(i),
                      .q = targets[1].of(i),
                      .weight = targets[2].of(i),
                      .map = targets[3].of(i),
                      .offset = targets[4].of(i)},
                     *workspace);
    }
  });
  add_turns(term, equivalent, place, targets, block);
}

/// What the terms' changes turn of the least x of instance i, if it is one of many.
void add_turned(const SmoothProgram& program, const SmoothSolution& solution, const SmoothTangent& dot,
                Index i, PointBlock& moved) {
  const auto& other = solution.linearisation->instances[at(i)].other;
  if (dot.terms.empty() || other == nullptr || other->turn() == nullptr) return;
  const Index n = program.constraints.n;
  Vector change = Vector::Zero(n);
  for (std::size_t t = 0; t < dot.terms.size(); ++t) {
    InstanceTerm::Workspace workspace;
    InstanceTerm own(program.terms[t], i, n);
    own.know_rows(solution.equivalent->rows_of(i, t));
    own.add_turned(solution.point.x.data() + i * n, other->turn()->x.data(),
                   InstanceTerm(with_shape_of(program.terms[t], dot.terms[t]), i, n), change.data(),
                   workspace);
  }
  moved.x.col(i) += other->flat_part(change);
}

}  // namespace

void vjp(const SmoothProgram& program, const SmoothSolution& solution, const BatchCotangent& bar,
         const SmoothGradient& gradient, const Missing& missing, int num_threads) {
  const BatchProgram& equivalent = solution.equivalent->program;
  const auto wants = [&](Field field) {
    return gradient.constraints[static_cast<std::size_t>(field)] != nullptr;
  };
  const Window everyone{.first = 0, .count = equivalent.size};
  const BatchAdjoint adjoint(equivalent, solution, bar, missing, everyone,
                             wants(Field::lb) || wants(Field::ub), num_threads);
  write_gradients(equivalent, adjoint.block(), gradient.constraints, num_threads);
  for (std::size_t t = 0; t < gradient.terms.size(); ++t)
    write_term(program.terms[t], *solution.equivalent, t, gradient.terms[t], adjoint, num_threads);
  if (gradient.u != nullptr) std::copy_n(adjoint.adjoint.x.data(), adjoint.adjoint.x.size(), gradient.u);
}

PointBlock jvp(const SmoothProgram& program, const SmoothSolution& solution, const SmoothTangent& dot,
               const Missing& missing, int num_threads) {
  const BatchProgram& sizes = program.constraints;
  const Index n = sizes.n;
  DenseMatrix change = DenseMatrix::Zero(n, sizes.size);  // of grad f
  if (dot.gradient != nullptr) change = Eigen::Map<const DenseMatrix>(dot.gradient, n, sizes.size);
  parallel_for(sizes.size, threads_for(num_threads, sizes.size * n * n), [&](Index i) {
    check_interrupt(multiplications(n, n, 1));
    if (!differentiable(solution, i, missing)) return;
    InstanceTerm::Workspace workspace;
    for (std::size_t t = 0; t < dot.terms.size(); ++t) {
      InstanceTerm own(program.terms[t], i, n);
      own.know_rows(solution.equivalent->rows_of(i, t));
      own.add_cross(solution.point.x.data() + i * n,
                    InstanceTerm(with_shape_of(program.terms[t], dot.terms[t]), i, n), change.data() + i * n,
                    workspace);
    }
  });
  BatchProgram tangent = dot.constraints;
  tangent.size = sizes.size;
  tangent.n = n;
  tangent.m = sizes.m;
  tangent.p = sizes.p;
  tangent[Field::P] = {};
  tangent[Field::q] = {.data = change.data(), .count = sizes.size};
  PointBlock moved = jvp(solution.equivalent->program, solution, tangent, missing, num_threads);
  for (Index i = 0; i < sizes.size; ++i)
    if (differentiable(solution, i, missing)) add_turned(program, solution, dot, i, moved);
  return moved;
}

}  // namespace altdiff
