#include "batch/sparse_batch.hpp"

#include <altdiff/derivatives.hpp>
#include <altdiff/watch.hpp>

#include "linalg/parallel_for.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

std::vector<Solution<SparseMatrix>> solve_each(const std::vector<const SparseProgram*>& programs,
                                               const Settings& settings, const std::vector<Point>& initial) {
  const Watch watch(settings.poll, settings.time_limit);  // of all instances together
  Settings own = settings;
  if (programs.size() > 1) own.num_threads = 1;
  std::vector<Solution<SparseMatrix>> solutions(programs.size());
  parallel_for(static_cast<Index>(programs.size()), threads_for(settings.num_threads), [&](Index i) {
    const auto k = static_cast<std::size_t>(i);
    solutions[k] = solve(*programs[k], own, initial[k]);
  });
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
