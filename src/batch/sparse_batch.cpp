#include "batch/sparse_batch.hpp"

#include <altdiff/derivatives.hpp>
#include <altdiff/watch.hpp>
#include <optional>

#include "batch/report.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

namespace {

std::string described(const std::vector<const SparseProgram*>& programs) {
  const SparseProgram& first = *programs[0];
  return description(static_cast<Index>(programs.size()), "sparse", first.n(), first.m(), first.p());
}

void tell(const BatchReport& report, std::string_view engine,
          const std::vector<Solution<SparseMatrix>>& solutions) {
  std::vector<ReportLine> lines;
  lines.reserve(solutions.size());
  for (const auto& solution : solutions)
    lines.push_back({.engine = engine,
                     .status = solution.status,
                     .iterations = solution.iterations,
                     .primal = solution.primal_residual,
                     .dual = solution.dual_residual,
                     .gap = solution.duality_gap});
  report.tell(lines);
}

}  // namespace

std::vector<Solution<SparseMatrix>> solve_each(const std::vector<const SparseProgram*>& programs,
                                               const Settings& settings, const std::vector<Point>& initial) {
  const Watch watch(settings.poll, settings.time_limit);  // of all instances together
  Settings own = settings;
  const bool tells = settings.log && programs.size() > 1;
  if (programs.size() > 1) own.num_threads = 1;
  if (tells) own.log = {};  // on other threads nobody may talk
  std::optional<BatchReport> report;
  if (tells) report.emplace(settings, static_cast<Index>(programs.size()), described(programs));
  std::vector<Solution<SparseMatrix>> solutions(programs.size());
  parallel_for(static_cast<Index>(programs.size()), threads_for(settings.num_threads), [&](Index i) {
    const auto k = static_cast<std::size_t>(i);
    solutions[k] = solve(*programs[k], own, initial[k]);
  });
  if (report) tell(*report, engine_of_one(settings), solutions);
  return solutions;
}

std::vector<SparseProgram> vjp_each(const std::vector<const SparseProgram*>& programs,
                                    const std::vector<const Solution<SparseMatrix>*>& solutions,
                                    const std::vector<Point>& bars, int num_threads) {
  std::vector<SparseProgram> gradients(programs.size());
  parallel_for(static_cast<Index>(programs.size()), threads_for(num_threads), [&](Index i) {
    const auto k = static_cast<std::size_t>(i);
    gradients[k] = vjp(*programs[k], *solutions[k], bars[k]);
  });
  return gradients;
}

}  // namespace altdiff::detail
