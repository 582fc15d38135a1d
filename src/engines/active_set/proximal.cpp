#include "engines/active_set/proximal.hpp"

#include <array>
#include <limits>

#include "linalg/norms.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

struct Attempt {
  double weight;     // of R
  bool absolute;     // relative to the largest number on the diagonal of P, or each to its own
  double dependent;  // see GoldfarbIdnani: the smaller, the more nearly parallel rows are told apart
};
constexpr std::array attempts{Attempt{.weight = 1e-6, .absolute = false, .dependent = 2e-14},
                              Attempt{.weight = 1e-6, .absolute = true, .dependent = 2e-14},
                              Attempt{.weight = 1e-6, .absolute = true, .dependent = 1e-16},
                              Attempt{.weight = 1e-3, .absolute = true, .dependent = 2e-14},
                              Attempt{.weight = 1e-10, .absolute = false, .dependent = 1e-15}};
constexpr double good_enough = 1e-10;
constexpr int most_rounds = 20;
constexpr int patience = 2;  // rounds that are no better

/// P + R, row after row, and R.
struct Regularised {
  DenseMatrix P;
  Vector R;

  Regularised(const MatricesView& data, const Attempt& attempt)
      : P(data.P_rows()), R(attempt.weight * P.diagonal().cwiseAbs()) {
    const double largest = R.maxCoeff() > 0 ? R.maxCoeff() : attempt.weight;
    for (double& r : R) r = attempt.absolute || r == 0 ? largest : r;
    P.diagonal() += R;
  }
};

void iterate(const Instance& instance, const std::vector<Index>& bounded, const Attempt& attempt,
             Proximal& best) {
  const Regularised regularised(instance.matrices, attempt);
  MatricesView matrices = instance.matrices;
  matrices.P = regularised.P.data();
  const auto own = std::make_shared<const OwnSpace>(matrices, bounded);
  if (!own->space.usable()) return;
  Instance shifted = instance;  // with the user's P: residuals are those of the user's program
  shifted.space = &own->space;
  shifted.largest_of_own_P = 0.5 * norm(instance.matrices.P_rows() + instance.matrices.P_rows().transpose());
  Vector pull = Vector::Zero(matrices.n);
  shifted.pull = pull.data();
  std::vector<DualState> state(1);
  ActiveSetEngine engine({&shifted, 1}, bounded, attempt.dependent);
  double smallest = std::numeric_limits<double>::infinity();
  for (int round = 0, idle = 0; round < most_rounds && idle < patience && !out_of_time(); ++round) {
    engine.run(state);
    if (state[0].outcome != DualState::Outcome::Solved) return;
    const double worst = engine.residuals[0].worst();
    idle = worst < 0.5 * smallest ? 0 : idle + 1;
    smallest = std::min(smallest, worst);
    if (!best.found() || worst < best.residuals.worst())
      best = {.own = own,
              .state = state[0],
              .point = engine.point,
              .residuals = engine.residuals[0],
              .objective = engine.objective[0],
              .margin = engine.margin[0]};
    if (worst < good_enough) return;
    pull = regularised.R.cwiseProduct(engine.point.x.col(0));
  }  // (AS7)
}

}  // namespace

Proximal solve_proximal(const Instance& instance, const std::vector<Index>& bounded) {
  Proximal best;
  for (const Attempt& attempt : attempts) {
    if (out_of_time()) break;
    iterate(instance, bounded, attempt, best);
    if (best.found() && best.residuals.worst() < good_enough) break;
  }
  return best;
}

}  // namespace altdiff::detail
