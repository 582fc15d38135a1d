#include "smooth/evaluator.hpp"

#include <algorithm>
#include <atomic>

#include "batch/linearisation.hpp"
#include "linalg/at.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/pieces.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {
constexpr Index most_chunks = 32;  // pieces of work, each with memory of its own
}  // namespace

Evaluator::Evaluator(const SmoothProgram& program, int num_threads)
    : program_(program),
      num_threads_(num_threads),
      n_(program.constraints.n),
      workspaces_(at(std::min(most_chunks, program.constraints.size))) {
  for (auto& workspaces : workspaces_) {
    workspaces.reserve(program.terms.size());
    for (const Term& term : program.terms) workspaces.push_back(InstanceTerm::workspace(term.rows));
  }
  terms_.resize(at(program.constraints.size));
  for (Index i = 0; i < program.constraints.size; ++i) {
    terms_[at(i)].reserve(program.terms.size());
    for (const Term& term : program.terms) terms_[at(i)].emplace_back(term, i, n_);
  }
  if (!program.constraints.has_bounds()) return;
  for (Index i = 0; i < program.constraints.size; ++i) {
    const VectorsView bounds = instance_of(program.constraints, i).vectors();
    for (InstanceTerm& term : terms_[at(i)]) term.hold_ends(bounds.lb, bounds.ub);
  }
}

bool Evaluator::operator()(const std::vector<Index>& instances, const DenseMatrix& X, const Target& target) {
  const auto count = static_cast<Index>(instances.size());
  const auto chunks = std::min(count, static_cast<Index>(workspaces_.size()));
  Index rows = 1;
  for (const Term& term : program_.terms) rows += term.rows;
  const double work = multiplications(n_, n_, rows);
  std::atomic<bool> late = false;
  parallel_for(chunks, threads_for(num_threads_, count * n_ * n_), [&](Index chunk) {
    for (Index k = chunk; k < count; k += chunks) {
      const Index i = instances[at(k)];
      if (!may_go_on(work)) {
        late = true;
        return;
      }
      double* gradient = target.gradient.data() + i * n_;
      double* hessian = target.hessians + i * n_ * n_;
      std::fill_n(gradient, n_, 0.0);
      std::fill_n(hessian, n_ * n_, 0.0);
      double value = 0;
      for (std::size_t t = 0; t < terms_[at(i)].size(); ++t)
        value += terms_[at(i)][t].add(X.data() + i * n_, gradient, hessian, *workspaces_[at(chunk)][t]);
      target.value[i] = value;
    }
  });
  if (late || (program_.evaluate && out_of_time())) return false;
  if (program_.evaluate && count > 0) ask(instances, X, target);
  return true;
}

void Evaluator::ask(const std::vector<Index>& instances, const DenseMatrix& X, const Target& target) {
  const auto count = static_cast<Index>(instances.size());
  const Index entries = program_.elementwise ? n_ : n_ * n_;
  points_ = X(Eigen::all, instances);
  gradients_.setZero(n_, count);
  values_.setZero(count);
  hessians_.assign(at(count * entries), 0.0);
  program_.evaluate({.count = count,
                     .instances = instances.data(),
                     .x = points_.data(),
                     .value = values_.data(),
                     .gradient = gradients_.data(),
                     .hessian = hessians_.data()});
  for (Index k = 0; k < count; ++k) {
    const Index i = instances[at(k)];
    target.value[i] += values_[k];
    target.gradient.col(i) += gradients_.col(k);
    Eigen::Map<DenseMatrix> H(target.hessians + i * n_ * n_, n_, n_);
    const double* own = hessians_.data() + k * entries;
    if (program_.elementwise) {
      H.diagonal() += Eigen::Map<const Vector>(own, n_);
    } else {
      const Eigen::Map<const DenseMatrix> given(own, n_, n_);
      H += 0.5 * given;  // only the symmetric part counts
      H += 0.5 * given.transpose();
    }
  }
}

}  // namespace altdiff::detail
