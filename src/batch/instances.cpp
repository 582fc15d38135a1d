#include "batch/instances.hpp"

#include <altdiff/derivatives.hpp>

#include "batch/parallel_for.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

template <Matrix M>
std::vector<Solution<M>> solve_each(const std::vector<const QuadraticProgram<M>*>& programs,
                                    const Settings& settings, const std::vector<Point>& initial) {
  Settings own = settings;
  if (programs.size() > 1) own.num_threads = 1;
  std::vector<Solution<M>> solutions(programs.size());
  parallel_for(static_cast<Index>(programs.size()), threads_for(settings.num_threads), [&](Index i) {
    const auto k = static_cast<std::size_t>(i);
    solutions[k] = solve(*programs[k], own, initial[k]);
  });
  return solutions;
}

template <Matrix M>
std::vector<QuadraticProgram<M>> vjp_each(const std::vector<const QuadraticProgram<M>*>& programs,
                                          const std::vector<const Solution<M>*>& solutions,
                                          const std::vector<Point>& bars, int num_threads) {
  std::vector<QuadraticProgram<M>> gradients(programs.size());
  parallel_for(static_cast<Index>(programs.size()), threads_for(num_threads), [&](Index i) {
    const auto k = static_cast<std::size_t>(i);
    gradients[k] = vjp(*programs[k], *solutions[k], bars[k]);
  });
  return gradients;
}

template std::vector<Solution<DenseMatrix>> solve_each(
    const std::vector<const QuadraticProgram<DenseMatrix>*>&, const Settings&, const std::vector<Point>&);
template std::vector<Solution<SparseMatrix>> solve_each(
    const std::vector<const QuadraticProgram<SparseMatrix>*>&, const Settings&, const std::vector<Point>&);
template std::vector<QuadraticProgram<DenseMatrix>> vjp_each(
    const std::vector<const QuadraticProgram<DenseMatrix>*>&,
    const std::vector<const Solution<DenseMatrix>*>&, const std::vector<Point>&, int);
template std::vector<QuadraticProgram<SparseMatrix>> vjp_each(
    const std::vector<const QuadraticProgram<SparseMatrix>*>&,
    const std::vector<const Solution<SparseMatrix>*>&, const std::vector<Point>&, int);

}  // namespace altdiff::detail
