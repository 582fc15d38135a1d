#include <gtest/gtest.h>

#include <deque>

#include "dual_programs.hpp"
#include "engines/active_set/goldfarb_idnani.hpp"
#include "engines/active_set/primal_dual.hpp"
#include "linalg/at.hpp"
#include "problem/certificates.hpp"
#include "problem/checks.hpp"

namespace altdiff::test {
namespace {

using detail::at;
using detail::DualProgram;
using detail::DualState;
using detail::GoldfarbIdnani;
using detail::PrimalDual;
using Outcome = detail::DualState::Outcome;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double dependent = 2e-14;

/// Appends rows to G x <= h.
void add_rows(QuadraticProgram<>& qp, const DenseMatrix& rows, const Vector& limits) {
  DenseMatrix G(qp.m() + rows.rows(), qp.n());
  Vector h(G.rows());
  G << qp.G, rows;
  h << qp.h, limits;
  qp.G = G;
  qp.h = h;
}

/// Programs with every sort of structure that the searches meet.
std::vector<QuadraticProgram<>> all_sorts(unsigned seed) {
  std::vector<QuadraticProgram<>> programs{
      random_program(seed, 8, 6, 2),           random_program(seed + 1, 4, 15, 2, true),
      random_program(seed + 2, 1, 1, 0),       random_program(seed + 3, 6, 0, 0),
      random_program(seed + 4, 6, 0, 1, true), random_program(seed + 5, 30, 20, 5, true),
      random_program(seed + 6, 5, 12, 5),      random_program(seed + 7, 90, 0, 0, true)};
  programs.back().q *= 40;  // more active bounds than are factorised side by side

  auto duplicates = random_program(seed + 8, 6, 5, 1, true);
  duplicates.q *= 5;
  add_rows(duplicates, duplicates.G, duplicates.h);
  add_rows(duplicates, 3 * duplicates.G.topRows(5), 3 * duplicates.h.head(5));
  programs.push_back(duplicates);

  auto fixed = random_program(seed + 9, 7, 4, 1, true);
  fixed.lb[2] = fixed.ub[2] = 0.5 * (fixed.lb[2] + fixed.ub[2]);
  fixed.lb[5] = fixed.ub[5];
  fixed.h.array() += 20;
  fixed.b = fixed.A * fixed.lb;
  programs.push_back(fixed);

  auto half_open = random_program(seed + 10, 7, 6, 2, true);
  half_open.lb.head(3).setConstant(-infinity);
  half_open.ub.segment(2, 3).setConstant(infinity);
  half_open.h[1] = infinity;
  programs.push_back(half_open);
  return programs;
}

/// (AS3), up to the rounding of a few operations.
void expect_optimal(const DualProgram& program, const DualState& state) {
  Vector v = Eigen::Map<const Vector>(program.t, program.k);
  double largest = program.size;
  for (std::size_t s = 0; s < state.rows.size(); ++s) {
    v -= state.lambda[s] * Eigen::Map<const Vector>(program.column(state.rows[s]), program.k);
    largest = std::max(largest, std::abs(state.lambda[s]) * program.lengths[state.rows[s]]);
  }
  const auto rounding = [&](Index i) {
    const double length = std::isfinite(program.lengths[i]) ? program.lengths[i] : 1;
    return 1e-9 * std::max(1.0, largest * length);
  };
  Index active = 0;
  for (Index i = 0; i < program.k; ++i) {
    EXPECT_LE(v[i], program.upper[i] + rounding(i)) << i;
    EXPECT_GE(v[i], program.lower[i] - rounding(i)) << i;
    if (state.side[at(i)] == 0) continue;
    const double lambda = state.lambda[at(active)];
    ASSERT_EQ(state.rows[at(active++)], i);
    EXPECT_NEAR(v[i], program.limit(i, state.side[at(i)]), rounding(i));
    if (!program.fixed(i)) {
      EXPECT_GE(state.side[at(i)] * lambda * program.lengths[i], -1e-9 * largest) << i;
    }
  }
  EXPECT_EQ(active, static_cast<Index>(state.rows.size()));
}

/// The factor that a search leaves solves with M_SS.
void expect_factor(const DualProgram& program, const DualState& state) {
  const auto count = static_cast<Index>(state.rows.size());
  Vector x = Vector::LinSpaced(count, 1, 2);
  Vector r = Vector::Zero(count);
  for (Index i = 0; i < count; ++i)
    for (Index j = 0; j < count; ++j) r[i] += program.entry(state.rows[at(i)], state.rows[at(j)]) * x[j];
  state.solve(r.data());
  if (count > 0) {
    EXPECT_LT((r - x).cwiseAbs().maxCoeff(), 1e-6);
  }
}

TEST(PrimalDual, IsRightWhereItSaysThatItIsFromAnySet) {
  Random random(7);
  int solved = 0;
  int runs = 0;
  for (unsigned seed = 0; seed < 200; seed += 20)
    for (const auto& qp : all_sorts(seed)) {
      const InDualSpace dual(qp);
      const std::vector<DualProgram> programs(1, dual.program());
      for (const double chance : {0.0, 0.3, 1.0}) {
        std::vector<DualState> state(1, dual.random_set(random, chance));
        PrimalDual(programs[0].k, dual.most()).run(programs, state, dual.most());
        EXPECT_NE(state[0].outcome, Outcome::Infeasible);
        runs += chance == 0 ? 1 : 0;
        if (state[0].outcome != Outcome::Solved) continue;
        solved += chance == 0 ? 1 : 0;
        expect_optimal(programs[0], state[0]);
        expect_factor(programs[0], state[0]);
      }
    }
  EXPECT_GT(2 * solved, runs) << "from nothing it converges more often than not";
}

TEST(GoldfarbIdnani, EndsAtTheSolutionFromAnySet) {
  Random random(8);
  for (unsigned seed = 300; seed < 500; seed += 20)
    for (const auto& qp : all_sorts(seed)) {
      const InDualSpace dual(qp);
      const DualProgram program = dual.program();
      GoldfarbIdnani search(program.k, dual.most(), dependent);
      for (const double chance : {0.0, 0.3, 1.0}) {
        DualState state = dual.random_set(random, chance);
        search.run(program, state);
        ASSERT_EQ(state.outcome, Outcome::Solved) << seed << ", n = " << qp.n() << ", m = " << qp.m();
        expect_optimal(program, state);
        expect_factor(program, state);
      }
    }
}

TEST(GoldfarbIdnani, EndsWhatThePrimalDualMethodLeaves) {
  Random random(9);
  int left = 0;
  for (unsigned seed = 600; seed < 900; seed += 20)
    for (const auto& qp : all_sorts(seed)) {
      const InDualSpace dual(qp);
      const std::vector<DualProgram> programs(1, dual.program());
      std::vector<DualState> state(1, dual.random_set(random, 0.8));
      PrimalDual(programs[0].k, dual.most()).run(programs, state, dual.most());
      if (state[0].outcome == Outcome::Solved) continue;
      ++left;
      GoldfarbIdnani(programs[0].k, dual.most(), dependent).run(programs[0], state[0]);
      ASSERT_EQ(state[0].outcome, Outcome::Solved) << seed;
      expect_optimal(programs[0], state[0]);
    }
  EXPECT_GT(left, 0) << "some sets are left, or this test shows nothing";
}

TEST(GoldfarbIdnani, GoesOnFromMultipliersAndValues) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const InDualSpace dual(random_program(seed, 10, 12, 2, true));
    const DualProgram program = dual.program();
    GoldfarbIdnani search(program.k, dual.most(), dependent);
    DualState solved = dual.empty_set();
    search.run(program, solved);
    ASSERT_EQ(solved.outcome, Outcome::Solved);

    DualState from_nothing = dual.empty_set();
    const Vector zero = Vector::Zero(program.k);
    search.resume(program, from_nothing, zero.data(), program.t);
    EXPECT_EQ(from_nothing.outcome, Outcome::Solved);
    EXPECT_EQ(from_nothing.side, solved.side);
    expect_optimal(program, from_nothing);

    DualState from_solution = solved;
    Vector lambda = zero;
    for (std::size_t s = 0; s < solved.rows.size(); ++s) lambda[solved.rows[s]] = solved.lambda[s];
    Vector v(program.k);
    row_values(program, solved, v.data());
    from_solution.changes = 0;
    search.resume(program, from_solution, lambda.data(), v.data());
    EXPECT_EQ(from_solution.changes, 0);
    EXPECT_EQ(from_solution.lambda, solved.lambda);
  }
}

/// Programs whose rows contradict each other, and nothing but their rows.
std::vector<QuadraticProgram<>> contradictions(unsigned seed) {
  std::vector<QuadraticProgram<>> programs;
  auto& interval = programs.emplace_back(random_program(seed, 1, 0, 0));
  add_rows(interval, DenseMatrix{{1.0}, {-1.0}}, Vector{{0.0, -1.0}});

  auto& opposite = programs.emplace_back(random_program(seed + 1, 8, 6, 2));
  add_rows(opposite, -opposite.G.row(3), Vector{{-opposite.h[3] - 1}});

  auto& box = programs.emplace_back(random_program(seed + 2, 6, 4, 1, true));
  add_rows(box, -DenseMatrix::Ones(1, 6), Vector{{-box.ub.sum() - 0.5}});

  auto& many = programs.emplace_back(random_program(seed + 3, 4, 20, 1, true));
  add_rows(many, -many.G.colwise().sum(), Vector{{-many.h.sum() - 1}});

  auto& fixed = programs.emplace_back(random_program(seed + 4, 5, 3, 0, true));
  fixed.lb.head(2) = fixed.ub.head(2);
  add_rows(fixed, DenseMatrix{{1, 1, 0, 0, 0}}, Vector{{fixed.ub[0] + fixed.ub[1] - 1}});
  return programs;
}

/// M lambda = 0, so lambda'v = lambda't whatever x is; but the limits keep lambda'v below that.
void expect_proof(const DualProgram& program, const DualState& state) {
  Vector left = Vector::Zero(program.k);
  double claim = 0;
  double size = 0;
  for (std::size_t s = 0; s < state.rows.size(); ++s) {
    const Index row = state.rows[s];
    const double lambda = state.lambda[s];
    const double limit = lambda > 0 ? program.upper[row] : program.lower[row];
    if (lambda == 0) continue;
    ASSERT_TRUE(std::isfinite(limit)) << row;
    left += lambda * Eigen::Map<const Vector>(program.column(row), program.k);
    claim += lambda * (program.t[row] - limit);
    size = std::max(size, std::abs(lambda) * program.lengths[row]);
  }
  for (Index i = 0; i < program.k; ++i) EXPECT_NEAR(left[i], 0, 1e-9 * size * program.lengths[i]) << i;
  EXPECT_GT(claim, 0);
}

TEST(GoldfarbIdnani, ProvesThatRowsContradictEachOtherFromAnySet) {
  Random random(10);
  for (unsigned seed = 0; seed < 100; seed += 10)
    for (const auto& qp : contradictions(seed)) {
      const InDualSpace dual(qp);
      const DualProgram program = dual.program();
      for (const double chance : {0.0, 0.5, 1.0}) {
        DualState state = dual.random_set(random, chance);
        GoldfarbIdnani(program.k, dual.most(), dependent).run(program, state);
        ASSERT_EQ(state.outcome, Outcome::Infeasible) << seed << ", m = " << qp.m();
        expect_proof(program, state);
      }
    }
}

TEST(PrimalDual, NeverCallsAContradictionSolved) {
  Random random(11);
  for (unsigned seed = 200; seed < 300; seed += 10)
    for (const auto& qp : contradictions(seed)) {
      const InDualSpace dual(qp);
      const std::vector<DualProgram> programs(1, dual.program());
      std::vector<DualState> state(1, dual.random_set(random, 0.5));
      PrimalDual(programs[0].k, dual.most()).run(programs, state, dual.most());
      EXPECT_EQ(state[0].outcome, Outcome::Stalled);
    }
}

TEST(PrimalDual, GivesTheSameForInstancesTogetherAndAlone) {
  Random random(12);
  std::deque<InDualSpace> duals;
  std::vector<DualProgram> programs;
  std::vector<DualState> together;
  for (unsigned seed = 0; seed < 11; ++seed) {
    auto qp = random_program(seed, 12, 8, 2, true);
    if (seed % 4 == 1) qp.G.row(1) = qp.G.row(0);  // a set with both is singular
    programs.push_back(duals.emplace_back(qp).program());
    together.push_back(duals.back().random_set(random, seed % 3 == 0 ? 0.0 : 0.5));
  }
  std::vector<DualState> alone = together;
  PrimalDual search(programs[0].k, duals[0].most());
  search.run(programs, together, duals[0].most());
  for (std::size_t i = 0; i < programs.size(); ++i) {
    search.run({&programs[i], 1}, {&alone[i], 1}, duals[0].most());
    EXPECT_EQ(together[i].outcome, alone[i].outcome) << i;
    EXPECT_EQ(together[i].side, alone[i].side) << i;
    EXPECT_EQ(together[i].changes, alone[i].changes) << i;
    if (alone[i].outcome != Outcome::Solved) continue;
    for (std::size_t s = 0; s < alone[i].rows.size(); ++s)
      EXPECT_NEAR(together[i].lambda[s], alone[i].lambda[s], 1e-11 * std::max(1.0, alone[i].lambda[s]));
  }
}

TEST(ActiveSetEngine, SolvesColumnsThatShareASpaceAndOthersAndProvesContradictions) {
  Random random(13);
  const InConstraintSpace one(random_program(14, 7, 5, 2, true));
  auto spoilt = random_program(15, 7, 5, 2, true);
  spoilt.G.row(1) = -spoilt.G.row(0);
  spoilt.h[1] = -spoilt.h[0] - 1;
  const InConstraintSpace other(spoilt);
  const std::array<Vector, 2> q{random.normals(7), 10 * random.normals(7)};
  std::vector<detail::Instance> instances{one.instance(), one.instance(), one.instance(), other.instance()};
  instances[1].q = q[0].data();
  instances[2].q = q[1].data();
  detail::ActiveSetEngine engine(instances, one.bounded);
  std::vector<DualState> states(4);
  engine.run(states);
  for (std::size_t j = 0; j < 3; ++j) {
    ASSERT_EQ(states[j].outcome, Outcome::Solved);
    auto qp = detail::normalised(one.qp);
    if (j > 0) qp.q = q[j - 1];
    const auto column = static_cast<Index>(j);
    const Point v{.x = engine.point.x.col(column),
                  .y = engine.point.y.col(column),
                  .z = engine.point.z.col(column),
                  .z_box = engine.point.z_box.col(column)};
    EXPECT_TRUE(detail::ResidualCheck<DenseMatrix>(qp)(qp, v).below(1e-13));
    EXPECT_NEAR(engine.objective[j], detail::objective(qp, v.x), 1e-12 * (1 + std::abs(engine.objective[j])));
    EXPECT_GT(engine.margin[j], 0);
  }
  ASSERT_EQ(states[3].outcome, Outcome::Infeasible);
  const auto user = detail::normalised(spoilt);
  Point proof = engine.proof(3, states[3]);
  EXPECT_TRUE(detail::CertificateCheck<DenseMatrix>(user).proves_primal_infeasible(user, proof));
}

TEST(ActiveSetEngine, ForgetsTheSidesOfLimitsThatDoNotExist) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    auto qp = random_program(seed, 7, 5, 2, true);
    qp.h[1] = infinity;
    qp.lb.head(4).setConstant(-infinity);
    const InConstraintSpace program(qp);
    const std::vector<detail::Instance> instances(1, program.instance());
    detail::ActiveSetEngine engine(instances, program.bounded);
    std::vector<DualState> states(1);
    states[0].side.assign(5 + 7, 0);
    states[0].side[1] = 1;                          // as in an earlier problem with another h
    if (seed % 2 == 1) states[0].side[5 + 3] = -1;  // and another lb
    engine.run(states);
    EXPECT_EQ(states[0].outcome, Outcome::Solved) << seed;
    EXPECT_TRUE(engine.residuals[0].below(1e-13)) << seed;
  }
}

TEST(Proximal, SolvesProgramsWhosePIsSingular) {
  Random random(16);
  for (unsigned seed = 0; seed < 10; ++seed) {
    auto qp = random_program(seed, 8, 6, 2, true);
    const DenseMatrix V = random.normals(8, 3);
    qp.P = V * V.transpose();
    const InConstraintSpace program(qp);
    EXPECT_FALSE(program.space().usable());
    const auto found = detail::solve_proximal(program.instance(), program.bounded);
    ASSERT_TRUE(found.found());
    const auto user = detail::normalised(qp);
    const Point v{.x = found.point.x, .y = found.point.y, .z = found.point.z, .z_box = found.point.z_box};
    EXPECT_TRUE(detail::ResidualCheck<DenseMatrix>(user)(user, v).below(1e-8)) << seed;
  }
}

}  // namespace
}  // namespace altdiff::test
