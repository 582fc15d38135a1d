#include "batch/linearisation.hpp"

#include "batch/parallel_for.hpp"
#include "linalg/dense.hpp"
#include "linalg/lanes.hpp"
#include "linalg/norms.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

namespace {

constexpr Index shared_width = 32;
constexpr Index own_numbers = 1 << 15;  // of spaces that are in use together: they fit into the second cache
constexpr double exact_enough = 1e-14;  // a correction, relative to what it corrects, that is only rounding

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

const double* part(const BatchField& field, Index instance, Index entries) {
  return field.data == nullptr ? nullptr : field.data + field.of(instance) * entries;
}

}  // namespace

Instance instance_of(const BatchProgram& program, Index i) {
  const Index n = program.n;
  return {.matrices = {.n = n,
                       .m = program.m,
                       .p = program.p,
                       .P = part(program[Field::P], i, n * n),
                       .G = part(program[Field::G], i, program.m * n),
                       .A = part(program[Field::A], i, program.p * n)},
          .q = part(program[Field::q], i, n),
          .b = part(program[Field::b], i, program.p),
          .h = part(program[Field::h], i, program.m),
          .lb = part(program[Field::lb], i, n),
          .ub = part(program[Field::ub], i, n)};
}

Chunks chunks_of(const BatchProgram& program, Index spaces) {
  if (spaces < program.size) return {.size = program.size, .width = shared_width};
  const Index numbers = ConstraintSpace::memory(program.n, program.p, program.m);
  return {.size = program.size, .width = std::clamp(own_numbers / numbers, lanes, shared_width)};
}

/// Neighbouring instances with one space, on their way through (AS6).
struct BatchLinearisation::Columns {
  const BatchProgram& program;
  Instance instance;                      // any of them: the matrices are the same
  std::vector<const DualState*> states{};  // one a column, or one for all
  int refinements = 0;
  Block x, y, z, z_box;                   // right-hand side in, solution out
};

void BatchLinearisation::solve_columns(Columns& columns) const {
  const Index count = columns.x.cols();
  const Index m = columns.program.m;
  const Index k = columns.instance.space->inequalities();
  DenseMatrix a = -columns.x;
  DenseMatrix c_E = -columns.y;
  DenseMatrix c_I(k, count);
  const auto read_rows = [&](const ConstBlock& z, const ConstBlock& z_box) {
    c_I.topRows(m) = -z;
    for (std::size_t i = 0; i < bounded.size(); ++i)
      c_I.row(m + static_cast<Index>(i)) = -z_box.row(bounded[i]);
  };
  read_rows(columns.z, columns.z_box);
  solve_kkt(*columns.instance.space, columns.states, a, c_E, c_I);

  DenseMatrix z_box = DenseMatrix::Zero(columns.z_box.rows(), count);
  const auto spread_bounds = [&] {
    for (std::size_t i = 0; i < bounded.size(); ++i) z_box.row(bounded[i]) = c_I.row(m + static_cast<Index>(i));
  };
  spread_bounds();
  double last = std::numeric_limits<double>::infinity();
  for (int round = 0; round < columns.refinements && last > exact_enough * norm(a); ++round) {
    Products products(a.rows(), m, c_E.rows(), count);
    products.compute(columns.instance, 0, a, c_E, c_I.topRows(m));
    DenseMatrix du = -(columns.x + products.Px + products.Aty + products.Gtz + z_box);
    DenseMatrix dv_E = -(columns.y + products.Ax);
    const DenseMatrix v_I = c_I;
    read_rows(columns.z + products.Gx, columns.z_box + a);
    solve_kkt(*columns.instance.space, columns.states, du, dv_E, c_I);
    const bool converges = norm(du) < 2 * last;
    last = norm(du);
    if (!converges) {
      c_I = v_I;
      break;
    }
    a += du;
    c_E += dv_E;
    c_I += v_I;
    spread_bounds();
  }
  columns.x = a;
  columns.y = c_E;
  columns.z = c_I.topRows(m);
  columns.z_box = z_box;
}

PointBlock BatchLinearisation::solve(const BatchProgram& program, const PointBlock& right_side,
                                     const std::vector<std::uint8_t>& wanted, int num_threads) const {
  PointBlock t = right_side;
  const Chunks chunks = chunks_of(program, static_cast<Index>(spaces.size()));
  const ScopedBlasThreads blas_threads(program.size == 1 ? program.n : 0, num_threads);
  parallel_for(chunks.count(), threads_for(num_threads), [&](Index chunk) {
    for (Index first = chunks.first(chunk), end = first; first < chunks.last(chunk); first = end) {
      const Linearised& instance = instances[at(first)];
      end = first + 1;
      if (wanted[at(first)] == 0) continue;
      if (instance.other != nullptr) {
        const PointBlock own = instance.other->solve({.x = t.x.col(first),
                                                      .y = t.y.col(first),
                                                      .z = t.z.col(first),
                                                      .z_box = t.z_box.col(first)});
        t.x.col(first) = own.x;
        t.y.col(first) = own.y;
        t.z.col(first) = own.z;
        t.z_box.col(first) = own.z_box;
        continue;
      }
      std::vector<const DualState*> states{&instance.state};
      int refinements = instance.refinements;
      while (end < chunks.last(chunk) && wanted[at(end)] != 0 && instances[at(end)].space == instance.space) {
        states.push_back(&instances[at(end)].state);
        refinements = std::max(refinements, instances[at(end)].refinements);
        ++end;
      }
      Instance data = instance_of(program, first);
      data.space = instance.space;
      const Index count = end - first;
      Columns columns{.program = program,
                      .instance = data,
                      .states = std::move(states),
                      .refinements = refinements,
                      .x = t.x.middleCols(first, count),
                      .y = t.y.middleCols(first, count),
                      .z = t.z.middleCols(first, count),
                      .z_box = t.z_box.middleCols(first, count)};
      solve_columns(columns);
    }
  });
  return t;
}

PointBlock BatchLinearisation::solve(const BatchProgram& program, Index instance,
                                     const PointBlock& right_side) const {
  const Linearised& own = instances[at(instance)];
  if (own.other != nullptr) return own.other->solve(right_side);
  PointBlock t = right_side;
  Instance data = instance_of(program, instance);
  data.space = own.space;
  Columns columns{.program = program,
                  .instance = data,
                  .states = {&own.state},
                  .refinements = own.refinements,
                  .x = t.x,
                  .y = t.y,
                  .z = t.z,
                  .z_box = t.z_box};
  solve_columns(columns);
  return t;
}

Vector BatchLinearisation::active_bounds(Index instance, Index n, Index m) const {
  const Linearised& own = instances[at(instance)];
  if (own.other != nullptr) return own.other->active().box;
  Vector box = Vector::Zero(n);
  for (std::size_t i = 0; i < bounded.size(); ++i) box[bounded[i]] = own.state.side[at(m) + i];
  return box;
}

Vector BatchLinearisation::active_rows(Index instance, Index m) const {
  const Linearised& own = instances[at(instance)];
  if (own.other != nullptr) return own.other->active().z;
  Vector rows(m);
  for (Index i = 0; i < m; ++i) rows[i] = own.state.side[at(i)] != 0 ? 1 : 0;
  return rows;
}

}  // namespace altdiff::detail
