#include <altdiff/batch.hpp>
#include <altdiff/solve.hpp>
#include <altdiff/watch.hpp>

#include "batch/linearisation.hpp"
#include "linalg/threads.hpp"
#include "problem/checks.hpp"
#include "solve_one.hpp"

namespace altdiff {

namespace {

using namespace detail;

/// A dense program as a batch of one, with data of its own.
class BatchOfOne final : public Linearisation {
 public:
  explicit BatchOfOne(const QuadraticProgram<DenseMatrix>& qp)
      : qp_(qp), G_rows_(qp.G.transpose()), A_rows_(qp.A.transpose()) {
    program_ = {.size = 1, .n = qp.n(), .m = qp.m(), .p = qp.p()};
    program_[Field::P].data = qp_.P.data();
    program_[Field::q].data = qp_.q.data();
    program_[Field::G].data = G_rows_.data();
    program_[Field::h].data = qp_.h.data();
    program_[Field::A].data = A_rows_.data();
    program_[Field::b].data = qp_.b.data();
    if (qp.lb.size() > 0) program_[Field::lb].data = qp_.lb.data();
    if (qp.ub.size() > 0) program_[Field::ub].data = qp_.ub.data();
  }

  [[nodiscard]] Solution<DenseMatrix> solve_once(const Settings& settings, const Point& initial) {
    const PointBlock start{.x = initial.x, .y = initial.y, .z = initial.z, .z_box = initial.z_box};
    const BatchSolution batch = altdiff::solve(program_, settings, start);
    linearisation_ = batch.linearisation;
    Solution<DenseMatrix> solution;
    static_cast<Answer&>(solution) = answer_of(batch, 0);
    return solution;
  }

  [[nodiscard]] bool known() const { return linearisation_->instances[0].known(); }

  [[nodiscard]] PointBlock solve(const PointBlock& right_side) const override {
    return linearisation_->solve(program_, 0, right_side);
  }
  [[nodiscard]] int rounds() const override {
    const auto& other = linearisation_->instances[0].other;
    return other == nullptr ? 0 : other->rounds();
  }
  [[nodiscard]] bool regular() const override {
    const auto& other = linearisation_->instances[0].other;
    return other == nullptr || other->regular();
  }
  [[nodiscard]] bool independent() const override {
    const auto& other = linearisation_->instances[0].other;
    return other == nullptr || other->independent();
  }
  [[nodiscard]] ActiveSet active() const override {
    return {.z = linearisation_->active_rows(0, program_.m),
            .box = linearisation_->active_bounds(0, program_.n, program_.m)};
  }
  [[nodiscard]] const Point* turn() const override {
    const auto& other = linearisation_->instances[0].other;
    return other == nullptr ? nullptr : other->turn();
  }
  [[nodiscard]] DenseMatrix flat_part(const DenseMatrix& columns) const override {
    return linearisation_->instances[0].other->flat_part(columns);
  }

 private:
  QuadraticProgram<DenseMatrix> qp_;
  DenseMatrix G_rows_, A_rows_;  // one column a row
  BatchProgram program_{};
  std::shared_ptr<const BatchLinearisation> linearisation_{};
};

Solution<DenseMatrix> solve_checked(const QuadraticProgram<DenseMatrix>& qp, const Settings& settings,
                                    const Point& initial) {
  Point start;
  if (initial.x.size() > 0) start = filled(initial, qp.n(), qp.p(), qp.m(), " of initial");
  const auto one = std::make_shared<BatchOfOne>(qp);
  Solution<DenseMatrix> solution = one->solve_once(settings, start);
  if (one->known()) solution.linearisation = one;
  return solution;
}

Solution<SparseMatrix> solve_checked(const QuadraticProgram<SparseMatrix>& qp, const Settings& settings,
                                     const Point& initial) {
  require(settings.method != Method::ActiveSet,
          "method 'active_set' is for dense matrices: use 'auto', or convert P, G and A");
  const ScopedBlasThreads one_thread(0, settings.num_threads);  // the fronts are too small to share
  return solve_one(qp, settings, initial);
}

}  // namespace

template <Matrix M>
Solution<M> solve(const QuadraticProgram<M>& qp, const Settings& settings, const Point& initial) {
  const Watch watch(settings.poll, settings.time_limit);
  check(qp);
  check(settings);
  return solve_checked(qp, settings, initial);
}

template Solution<DenseMatrix> solve(const QuadraticProgram<DenseMatrix>&, const Settings&, const Point&);
template Solution<SparseMatrix> solve(const QuadraticProgram<SparseMatrix>&, const Settings&, const Point&);

}  // namespace altdiff
