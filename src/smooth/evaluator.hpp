#pragma once

#include <altdiff/smooth.hpp>

#include "objectives/terms.hpp"

namespace altdiff::detail {

/// f, its gradient and its Hessian: the terms of many instances side by side, the user's own f in one call.
class Evaluator {
 public:
  Evaluator(const SmoothProgram& program, int num_threads);

  /// Where the answers go: one entry or column an instance of the batch; Hessians n x n each.
  struct Target {
    Vector& value;
    DenseMatrix& gradient;
    double* hessians;
  };
  /// At the columns of X that belong to `instances`. Not finite where x is outside the domain. False if the
  /// time was over before all were done.
  [[nodiscard]] bool operator()(const std::vector<Index>& instances, const DenseMatrix& X,
                                const Target& target);

  [[nodiscard]] const std::vector<InstanceTerm>& terms(Index i) const {
    return terms_[static_cast<std::size_t>(i)];
  }
  /// That of the terms of an instance.                                                                (N14)
  void set_temperature(Index i, const Temperature& now) {
    for (InstanceTerm& term : terms_[static_cast<std::size_t>(i)]) term.set_temperature(now);
  }

 private:
  void ask(const std::vector<Index>& instances, const DenseMatrix& X, const Target& target);

  const SmoothProgram& program_;
  int num_threads_;
  Index n_;
  std::vector<std::vector<InstanceTerm>> terms_{};
  std::vector<std::vector<Spare<InstanceTerm::Workspace>>> workspaces_;  // of every piece of work, one a term
  DenseMatrix points_{}, gradients_{};
  Vector values_{};
  std::vector<double> hessians_{};
};

}  // namespace altdiff::detail
