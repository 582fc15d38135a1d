#include <algorithm>
#include <altdiff/batch.hpp>
#include <optional>
#include <span>

#include "batch/grouping.hpp"
#include "batch/kinks.hpp"
#include "batch/linearisation.hpp"
#include "batch/report.hpp"
#include "engines/active_set/proximal.hpp"
#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/norms.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/pieces.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"
#include "problem/certificates.hpp"
#include "problem/checks.hpp"
#include "problem/rows.hpp"
#include "solve_one.hpp"

namespace altdiff {

namespace {

using namespace detail;

constexpr int many_refinements = 30;
constexpr double doubtful_pivot = 1e-9;  // of P, relative to its diagonal: x may not be unique
constexpr double doubtful_equality_pivot =
    1e-13;                                // of M_EE: its condition is that of the rows squared, times P's
constexpr double drowned_margin = 1e-10;  // the same: a minimiser without constraints drowns the digits of x
constexpr double doubtful_margin = 1e-7;  // (G1) in constraint space: below, the user's units are asked
constexpr double same_point = 1e-9;       // relative
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A batch on its way: spaces, active sets, and what is left for another engine.
class BatchSolver {
 public:
  BatchSolver(const BatchProgram& program, const Settings& settings, const PointBlock& initial)
      : program_(program),
        settings_(settings),
        initial_(initial),
        grouping_(program),
        result_(std::make_shared<BatchLinearisation>()) {
    prepare_solution();
    result_->chunks = Chunks::of(program, grouping_.spaces);
    result_->instances.resize(at(program.size));
    if (settings.log) routes_.assign(at(program.size), Route::ActiveSet);
    if (!active_set()) return;
    result_->bounded = bounded_variables(program);
    const Index k = program.m + static_cast<Index>(result_->bounded.size());
    space_memory_ = ConstraintSpace::memory(program.n, program.p, k);
    M_memory_ = ConstraintSpace::memory_of_M(k);
    if (own_spaces() && program.size > 1 && Quartet::serves(program.n, program.p, k)) {
      make_quartets(k);
    } else {
      result_->memory = Memory(grouping_.spaces * space_memory_);
      result_->spaces.resize(at(grouping_.spaces));
    }
  }

  BatchSolution run() {
    const Index size = program_.size;
    std::optional<BatchReport> report;
    if (settings_.log)
      report.emplace(settings_, size, description(size, "dense", program_.n, program_.m, program_.p));
    const int threads = threads_for(settings_.num_threads);
    // Several threads of BLAS change the rounding, and the answers of a batch must not depend on threads.
    const ScopedBlasThreads blas_threads(size == 1 ? program_.n : 0, settings_.num_threads);
    if (active_set() && grouping_.spaces < size) {
      std::vector<Index> example(at(grouping_.spaces));
      for (Index i = size - 1; i >= 0; --i) example[at(grouping_.of[at(i)])] = i;
      M_of_spaces_ = Memory(grouping_.spaces * M_memory_);
      parallel_for(grouping_.spaces, threads, [&](Index space) {
        make_space(example[at(space)], M_of_spaces_.data() + space * M_memory_);
      });
    }
    const Chunks& chunks = result_->chunks;
    parallel_for(chunks.count(), threads, [&](Index c) { solve_chunk(chunks.first(c), chunks.last(c)); });
    solution_.linearisation = result_;
    if (report) report->tell(solution_, routes_);
    return std::move(solution_);
  }

 private:
  [[nodiscard]] bool active_set() const {
    return settings_.method == Method::ActiveSet || (settings_.method == Method::Auto && settings_.finish);
  }

  void prepare_solution() {
    const Index size = program_.size;
    solution_.point = {.x = DenseMatrix::Constant(program_.n, size, nan),
                       .y = DenseMatrix::Constant(program_.p, size, nan),
                       .z = DenseMatrix::Constant(program_.m, size, nan),
                       .z_box = DenseMatrix::Constant(program_.has_bounds() ? program_.n : 0, size, nan)};
    solution_.status.assign(at(size), Status::InvalidData);
    solution_.iterations.assign(at(size), 0);
    solution_.degenerate.assign(at(size), 0);
    solution_.unique.assign(at(size), 0);
    for (Vector* numbers : {&solution_.objective, &solution_.primal_residual, &solution_.dual_residual,
                            &solution_.duality_gap, &solution_.margin})
      *numbers = Vector::Constant(size, nan);
  }

  [[nodiscard]] bool own_spaces() const { return active_set() && grouping_.spaces == program_.size; }

  void make_quartets(Index k) {
    const Index count = (program_.size + lanes - 1) / lanes;
    const Index numbers = Quartet::memory(program_.n, program_.p, k);
    result_->memory = Memory(count * numbers);
    for (Index c = 0; c < count; ++c)
      result_->quartets.emplace_back(program_.n, program_.m, program_.p, result_->bounded,
                                     result_->memory.data() + c * numbers);
  }

  void make_space(Index instance, double* M) {
    const Instance data = instance_of(program_, instance);
    const Index space = grouping_.of[at(instance)];
    result_->spaces[at(space)] =
        ConstraintSpace(data.matrices, result_->bounded, result_->memory.data() + space * space_memory_, M,
                        threads_for(settings_.num_threads));
  }

  /// An instance on its way.
  using Column = DenseMatrix::ConstColXpr;
  struct Member {
    Index i;  // in the batch
    Instance instance;
    std::shared_ptr<const OwnSpace> own{};  // where its space is not one of the batch's
  };

  void solve_chunk(Index first, Index last) {
    const bool late = out_of_time();
    std::vector<Member> members;
    members.reserve(at(last - first));
    for (Index i = first; i < last; ++i) {
      Member member{.i = i, .instance = instance_of(program_, i)};
      if (!valid_vectors(member.instance)) continue;
      late ? give_up(i) : members.push_back(std::move(member));
    }
    if (!result_->quartets.empty()) solve_quartets(members);
    const bool own = own_spaces() && result_->quartets.empty();
    const Memory Ms(own ? (last - first) * M_memory_ : 0);
    for (Member& member : members) {
      if (own && !out_of_time()) make_space(member.i, Ms.data() + (member.i - first) * M_memory_);
      find_space(member);
    }
    const auto elsewhere = std::ranges::stable_partition(
        members, [](const Member& member) { return member.instance.space != nullptr; });
    for (const Member& member : elsewhere) hand_on(member.i, member.instance, false);
    members.erase(elsewhere.begin(), members.end());
    if (!members.empty()) solve_together(members);
  }

  void give_up(Index i) { solution_.status[at(i)] = Status::TimeLimit; }  // the point is NaN

  /// Leaves the instance without one if the active set does not serve, or there is no time.
  void find_space(Member& member) {
    if (!active_set() || out_of_time()) return;
    const ConstraintSpace* space = nullptr;
    if (result_->quartets.empty()) {
      space = &result_->spaces[at(grouping_.of[at(member.i)])];
    } else {
      member.own = std::make_shared<const OwnSpace>(member.instance.matrices, result_->bounded);
      space = &member.own->space;
    }
    if (space->usable()) member.instance.space = space;
  }

  /// Four at a time; takes those that are solved off the list.
  void solve_quartets(std::vector<Member>& members) {
    const Index k = result_->quartets[0].inequalities();
    Quartet::Workspace workspace(program_.n, program_.m, program_.p, k);
    const double work = lanes * multiplications(program_.n + program_.p + k, program_.n + k, program_.n + k);
    for (auto first = members.begin(), end = first; first != members.end(); first = end) {
      const Index place = first->i / lanes;
      end = std::find_if(first, members.end(), [&](const Member& other) { return other.i / lanes != place; });
      if (!may_go_on(work)) break;
      solve_quartet({first, end}, workspace);
    }
    std::erase_if(members, [&](const Member& member) { return result_->instances[at(member.i)].known(); });
  }

  void solve_quartet(std::span<const Member> members, Quartet::Workspace& workspace) {
    Quartet& quartet = result_->quartets[at(members[0].i / lanes)];
    std::array<Instance, lanes> instances{};
    instances.fill(members[0].instance);  // whoever is missing
    std::array<std::vector<std::int8_t>, lanes> sets;
    std::array<const std::int8_t*, lanes> first_sets{};
    for (const Member& member : members) {
      const auto lane = at(member.i % lanes);
      instances[lane] = member.instance;
      if (initial_.x.size() == 0) continue;
      sets[lane] = first_set(member.i);
      first_sets[lane] = sets[lane].data();
    }
    quartet.solve(instances, result_->bounded, first_sets, workspace);
    for (const Member& member : members) {
      const auto lane = at(member.i % lanes);
      QuartetResult& result = workspace.result;
      if (!result.exact[lane] || result.changes[lane] > settings_.max_iterations ||
          !result.residuals[lane].below(settings_.tolerance))
        continue;
      const auto point = column(result.point, member.i % lanes);
      if ((doubtful(member.instance, point, result.margin[lane]) ||
           leaks_at_vertex(member.instance, program_.p + quartet.active(member.i % lanes))) &&
          by_convention(member, point, result.changes[lane]))
        continue;
      accept(quartet, result, member.i);
    }
  }

  void solve_together(std::vector<Member>& members) {
    std::vector<Instance> instances;
    std::vector<DualState> states(members.size());
    for (std::size_t j = 0; j < members.size(); ++j) {
      instances.push_back(members[j].instance);
      states[j].side = first_set(members[j].i);
    }
    ActiveSetEngine engine(instances, result_->bounded);
    engine.run(states);
    for (std::size_t j = 0; j < members.size(); ++j) {
      const bool solved = states[j].outcome == DualState::Outcome::Solved &&
                          states[j].changes <= settings_.max_iterations &&
                          engine.residuals[j].below(settings_.tolerance);
      const auto c = static_cast<Index>(j);
      const auto point = column(engine.point, c);
      if (engine.margin[j] < doubtful_margin) engine.refined[j] = 1;  // x is small beside what it is made of
      if (solved &&
          (doubtful_space(*instances[j].space) || doubtful(instances[j], point, engine.margin[j]) ||
           leaks_at_vertex(instances[j], instances[j].space->equalities() + states[j].count())) &&
          by_convention(members[j], point, states[j].changes))
        continue;
      if (solved) {
        accept(engine, c, members[j], states[j]);
      } else if (!certified(engine, c, members[j].i, states[j], instances[j])) {
        hand_on(members[j].i, instances[j], states[j].changes > settings_.max_iterations);
      }
    }
  }

  /// Whether x or the multipliers may not be unique.
  [[nodiscard]] bool doubtful_space(const ConstraintSpace& space) const {
    return space.equalities() < program_.p || space.smallest_pivot() < doubtful_pivot ||
           space.equality_pivot() < doubtful_equality_pivot;
  }

  /// Where the user's units say that there is no kink, the margin is not one that is called degenerate.
  [[nodiscard]] static bool doubtful(const Instance& instance, const BasicPoint<Column>& point,
                                     double& margin) {
    if (!(margin < doubtful_margin)) return false;
    if (margin < drowned_margin) return true;
    if (near_a_kink(instance, {.x = point.x, .y = point.y, .z = point.z, .z_box = point.z_box})) return true;
    margin = std::max(margin, degenerate_margin);
    return false;
  }

  [[nodiscard]] std::vector<std::int8_t> first_set(Index i) const {
    std::vector<std::int8_t> side(at(program_.m) + result_->bounded.size());
    if (initial_.x.size() > 0) set_sides(result_->bounded, initial_.z.col(i), initial_.z_box.col(i), side);
    return side;
  }

  struct Numbers {
    Status status = Status::Solved;
    double objective = 0;
    int iterations = 0;
    Residuals residuals{};
    double margin = 0;
    bool degenerate = false;
    bool unique = true;
  };

  template <class V>
  void record(Index i, const BasicPoint<V>& point, const Numbers& numbers) {
    solution_.point.x.col(i) = point.x;
    solution_.point.y.col(i) = point.y;
    solution_.point.z.col(i) = point.z;
    if (program_.has_bounds()) solution_.point.z_box.col(i) = point.z_box;
    solution_.status[at(i)] = numbers.status;
    solution_.objective[i] = numbers.objective;
    solution_.iterations[at(i)] = numbers.iterations;
    solution_.primal_residual[i] = numbers.residuals.primal;
    solution_.dual_residual[i] = numbers.residuals.dual;
    solution_.duality_gap[i] = numbers.residuals.gap;
    solution_.margin[i] = numbers.margin;
    solution_.degenerate[at(i)] = numbers.degenerate ? 1 : 0;
    solution_.unique[at(i)] = numbers.unique ? 1 : 0;
  }

  static BasicPoint<Column> column(const PointBlock& point, Index j) {
    return {.x = point.x.col(j), .y = point.y.col(j), .z = point.z.col(j), .z_box = point.z_box.col(j)};
  }

  void accept(const ActiveSetEngine& engine, Index j, Member& member, const DualState& state) {
    record(member.i, column(engine.point, j),
           {.objective = engine.objective[at(j)],
            .iterations = state.changes,
            .residuals = engine.residuals[at(j)],
            .margin = engine.margin[at(j)],
            .degenerate = engine.margin[at(j)] < degenerate_margin ||
                          member.instance.space->equalities() < program_.p});
    result_->instances[at(member.i)] =
        Linearised::by_set(engine, j, *member.instance.space, state, std::move(member.own));
  }

  void accept(const Quartet& quartet, const QuartetResult& result, Index i) {
    const auto lane = at(i % lanes);
    record(i, column(result.point, i % lanes),
           {.objective = result.objective[lane],
            .iterations = result.changes[lane],
            .residuals = result.residuals[lane],
            .margin = result.margin[lane],
            .degenerate = result.margin[lane] < degenerate_margin});
    result_->instances[at(i)].quartet = &quartet;
  }

  void accept(Index i, const Proximal& found) {
    record(i, found.point,
           {.objective = found.objective,
            .iterations = found.state.changes,
            .residuals = found.residuals,
            .margin = found.margin,
            .degenerate = found.margin < degenerate_margin || found.own->space.equalities() < program_.p});
    result_->instances[at(i)] = {.space = &found.own->space,
                                 .set = KeptSet(found.state),
                                 .refinements = many_refinements,
                                 .own = found.own};
  }

  void accept(Index i, const Solution<DenseMatrix>& solved) {
    record(i, static_cast<const Point&>(solved),
           {.status = solved.status,
            .objective = solved.objective,
            .iterations = solved.iterations,
            .residuals = {.primal = solved.primal_residual,
                          .dual = solved.dual_residual,
                          .gap = solved.duality_gap},
            .margin = solved.margin,
            .degenerate = solved.degenerate,
            .unique = solved.unique});
    result_->instances[at(i)] = {.other = solved.linearisation};
  }

  /// A certificate counts only if it holds for the user's data.
  bool certified(const ActiveSetEngine& engine, Index j, Index i, const DualState& state,
                 const Instance& instance) {
    if (state.outcome != DualState::Outcome::Infeasible) return false;
    Point proof = engine.proof(j, state);
    const auto user = normalised(program_of(instance));
    if (!CertificateCheck<DenseMatrix>(user, settings_.tolerance).proves_primal_infeasible(user, proof))
      return false;
    solution_.point.y.col(i) = proof.y;
    solution_.point.z.col(i) = proof.z;
    if (program_.has_bounds()) solution_.point.z_box.col(i) = proof.z_box;
    solution_.status[at(i)] = Status::PrimalInfeasible;
    solution_.objective[i] = std::numeric_limits<double>::infinity();
    solution_.iterations[at(i)] = state.changes;
    return true;
  }

  /// Where the active set does not serve: P is not definite enough, or the answer did not pass the check.
  void hand_on(Index i, const Instance& instance, bool at_limit) {
    if (out_of_time()) {
      give_up(i);
      return;
    }
    try {
      solve_elsewhere(i, instance, at_limit);
    } catch (const OutOfTime&) {
      give_up(i);
    }
  }

  void solve_elsewhere(Index i, const Instance& instance, bool at_limit) {
    if (!valid_matrices(instance.matrices)) return;
    Settings quiet = settings_;
    if (program_.size > 1) quiet.log = {};  // on other threads nobody may talk
    const QuadraticProgram<DenseMatrix> qp = program_of(instance);
    Proximal found;
    if (active_set() && !at_limit && curvature_of(normalised(qp).P) == Curvature::Positive) {
      found = solve_proximal(instance, result_->bounded);
      note(i, Route::Proximal);
      if (found.found() && finished(i, qp, found)) return;
    }
    const bool good = found.found() && found.residuals.below(settings_.tolerance);
    if (good && out_of_time()) {
      accept(i, found);
      return;
    }
    // Without a finish it is not known whether x is unique: another engine's may have one.
    const auto other = solve_one(qp, quiet, found.found() ? found.as_point() : known_start(i));
    if (good && other.status != Status::Solved) {
      accept(i, found);
      describe_by(other, i);
      return;
    }
    note(i, Route::HandedOn);
    accept(i, other);
  }

  /// Whether x is unique, and derivatives, where a finish had them for the same point, though a digit short
  /// of the tolerance.
  void describe_by(const Solution<DenseMatrix>& other, Index i) {
    const auto x = solution_.point.x.col(i);
    if (other.linearisation == nullptr || !(norm(other.x - x) <= same_point * (1 + norm(x)))) return;
    solution_.unique[at(i)] = other.unique ? 1 : 0;
    solution_.degenerate[at(i)] = other.degenerate ? 1 : 0;
    solution_.margin[i] = other.margin;
    result_->instances[at(i)] = {.other = other.linearisation};
  }

  /// On a kink, or with redundant rows, derivatives and multipliers follow a convention that the finish
  /// knows; false if it does not keep the point, or there is no time to ask.
  bool by_convention(const Member& member, const BasicPoint<Column>& found, int changes) {
    if (out_of_time()) return false;
    const Point point{.x = found.x, .y = found.y, .z = found.z, .z_box = found.z_box};
    auto finished = finish_one(program_of(member.instance), settings_, point);
    if (!finished) return false;
    finished->iterations = changes;
    accept(member.i, *finished);
    return true;
  }

  /// The proximal method's point, finished on its active set.
  bool finished(Index i, const QuadraticProgram<DenseMatrix>& qp, const Proximal& found) {
    if (out_of_time()) return false;
    const auto solution = finish_one(qp, settings_, found.as_point());
    if (solution) accept(i, *solution);
    return solution.has_value();
  }

  void note(Index i, Route route) {
    if (!routes_.empty()) routes_[at(i)] = route;
  }

  [[nodiscard]] Point known_start(Index i) const {
    if (initial_.x.size() == 0 || !initial_.x.col(i).allFinite()) return {};
    return {.x = initial_.x.col(i),
            .y = initial_.y.col(i),
            .z = initial_.z.col(i),
            .z_box = initial_.z_box.col(i)};
  }

  const BatchProgram& program_;
  const Settings& settings_;
  const PointBlock& initial_;
  Grouping grouping_;
  Index space_memory_ = 0, M_memory_ = 0;
  Memory M_of_spaces_{};
  std::vector<Route> routes_{};  // of each instance, if somebody listens
  std::shared_ptr<BatchLinearisation> result_;
  BatchSolution solution_;
};

}  // namespace

BatchSolution solve(const BatchProgram& program, const Settings& settings, const PointBlock& initial) {
  const Watch watch(settings.poll, settings.time_limit);
  check(settings);
  return BatchSolver(program, settings, initial).run();
}

}  // namespace altdiff
