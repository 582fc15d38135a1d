#include <algorithm>
#include <altdiff/batch.hpp>

#include "batch/pullback.hpp"
#include "derivatives/unit_tangents.hpp"
#include "linalg/at.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/pieces.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"

namespace altdiff {

namespace {

using namespace detail;

}  // namespace

void vjp(const BatchProgram& program, const BatchSolution& solution, const BatchCotangent& bar,
         const BatchGradient& gradient, const Missing& missing, int num_threads) {
  const bool with_bounds = gradient[static_cast<std::size_t>(Field::lb)] != nullptr ||
                           gradient[static_cast<std::size_t>(Field::ub)] != nullptr;
  Window window{};
  do {  // a batch of no instances has gradients too
    window.count = std::min(Window::width, program.size - window.first);
    const BatchAdjoint adjoint(program, solution, bar, missing, window, with_bounds, num_threads);
    write_gradients(program, adjoint.block(), gradient, num_threads);
    window.first += window.count;
  } while (window.first < program.size);
}

PointBlock jvp(const BatchProgram& program, const BatchSolution& solution, const BatchProgram& dot,
               const Missing& missing, int num_threads) {
  const BatchLinearisation& linearisation = *solution.linearisation;
  PointBlock r{.x = DenseMatrix::Zero(program.n, program.size),
               .y = DenseMatrix::Zero(program.p, program.size),
               .z = DenseMatrix::Zero(program.m, program.size),
               .z_box = DenseMatrix::Zero(program.n, program.size)};
  std::vector<std::uint8_t> wanted(at(program.size));
  for (Index i = 0; i < program.size; ++i) {
    check_interrupt(multiplications(program.n, program.n + program.m + program.p, 1));
    wanted[at(i)] = differentiable(solution, i, missing) ? 1 : 0;
    if (wanted[at(i)] == 0) continue;
    const Vector side = linearisation.active_bounds(i, program.n, program.m);
    add_tangent(instance_of(dot, i), solution.point, i, side, r);
  }
  linearisation.solve(program, 0, r, wanted, num_threads);
  for (Index i = 0; i < program.size; ++i) {
    const auto& other = linearisation.instances[at(i)].other;
    if (wanted[at(i)] == 0) {
      set_column(r, i, missing.value);
    } else if (other != nullptr && other->turn() != nullptr) {
      r.x.col(i) += other->flat_part(turned_gradient(instance_of(dot, i).matrices, *other->turn()));  // (L4)
    }
  }
  return r;
}

std::vector<double> jacobian(const BatchProgram& program, const BatchSolution& solution, Field field,
                             const Missing& missing, int num_threads) {
  const BatchLinearisation& linearisation = *solution.linearisation;
  const Index n = program.n;
  const Index m = program.m;
  const Index p = program.p;
  const Index columns = entries_of(n, m, p, field);
  const Index entries = n * columns;
  const Index together = columns_together(n, m, p);
  const Index pieces = std::max<Index>(1, (columns + together - 1) / together);
  std::vector<double> jacobians(at(program.size * entries), missing.value);
  parallel_for(program.size * pieces, threads_for(num_threads), [&](Index item) {
    const Index i = item / pieces;
    const Index first = item % pieces * together;
    if (!differentiable(solution, i, missing)) return;
    const Vector side = linearisation.active_bounds(i, n, m);
    const Index count = std::min(together, columns - first);
    const PointBlock t = linearisation.solve(program, i, unit_tangents(n, m, p, field, side, first, count));
    Eigen::Map<DenseMatrix>(jacobians.data() + i * entries, columns, n).middleRows(first, count) =
        t.x.transpose();
  });
  return jacobians;
}

}  // namespace altdiff
