#include "batch/linearisation.hpp"

#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/lanes.hpp"
#include "linalg/norms.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/pieces.hpp"
#include "linalg/threads.hpp"
#include "linalg/watch.hpp"

namespace altdiff::detail {

namespace {

constexpr int few_refinements = 8;

constexpr Index shared_width = 32;
constexpr Index own_numbers = 32768;     // of spaces that are in use together: they fit into the second cache
constexpr double only_rounding = 1e-14;  // a correction, relative to what it corrects, that is only rounding

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

Chunks Chunks::of(const BatchProgram& program, Index spaces) {
  if (spaces < program.size) return {.size = program.size, .width = shared_width};
  const Index numbers = ConstraintSpace::memory(program.n, program.p, program.m);
  const Index width = own_numbers / numbers / lanes * lanes;
  return {.size = program.size, .width = std::clamp(width, lanes, shared_width)};
}

/// Neighbouring instances with one space, on their way through (AS6), in memory that the next ones use again.
struct BatchLinearisation::Columns {
  Instance instance{};                 // any of them: the matrices are the same
  std::vector<const KeptSet*> sets{};  // one a column, or one for all
  int refinements = 0;
  DenseMatrix c_I{};
  KktWorkspace workspace{};
  PointBlock right_side{}, correction{};  // and products: of refinements
  Products products{};

  [[nodiscard]] Index numbers() const {
    const auto& [x, y, z, z_box] = right_side;  // those of refinements are five of these at most
    return c_I.size() + workspace.t.size() + 5 * (x.size() + y.size() + z.size() + z_box.size());
  }
  static Spare<Columns> spare() {
    return detail::spare<Columns>([](const Columns&) { return true; });
  }
};

/// Right-hand sides in, solutions out.
void BatchLinearisation::solve_columns(Columns& columns, Block x, Block y, Block z, Block z_box) const {
  if (columns.refinements > 0) {
    columns.right_side.x = x;
    columns.right_side.y = y;
    columns.right_side.z = z;
    columns.right_side.z_box = z_box;
  }
  solve_once(columns, x, y, z, z_box);
  if (columns.refinements > 0) refine(columns, x, y, z, z_box);
}

void BatchLinearisation::solve_once(Columns& columns, Block x, Block y, Block z, Block z_box) const {
  const Index m = z.rows();
  const Index n = x.rows();
  check_interrupt(multiplications(n, n + m + y.rows(), x.cols()));
  DenseMatrix& c_I = columns.c_I;
  c_I.resize(columns.instance.space->inequalities(), x.cols());
  x *= -1;
  y *= -1;
  c_I.topRows(m) = -z;
  for (std::size_t i = 0; i < bounded.size(); ++i)
    c_I.row(m + static_cast<Index>(i)) = -z_box.row(bounded[i]);
  solve_kkt<KeptSet>(*columns.instance.space, columns.sets, x, y, c_I, columns.workspace);
  z = c_I.topRows(m);
  z_box.setZero();
  for (std::size_t i = 0; i < bounded.size(); ++i) z_box.row(bounded[i]) = c_I.row(m + static_cast<Index>(i));
}

void BatchLinearisation::refine(Columns& columns, Block x, Block y, Block z, Block z_box) const {
  const PointBlock& right_side = columns.right_side;
  Products& products = columns.products;
  PointBlock& d = columns.correction;
  products.resize(x.rows(), z.rows(), y.rows(), x.cols());
  double last = std::numeric_limits<double>::infinity();
  for (int round = 0; round < columns.refinements && last > only_rounding * norm(x); ++round) {
    products.compute(columns.instance, 0, x, y, z);
    d.x = right_side.x + products.Px + products.Aty + products.Gtz;
    d.y = right_side.y + products.Ax;
    d.z = right_side.z + products.Gx;
    d.z_box = right_side.z_box;
    if (z_box.rows() > 0) {  // there are bounds
      d.x += z_box;
      d.z_box += x;
    }
    solve_once(columns, d.x, d.y, d.z, d.z_box);
    if (!(norm(d.x) < 2 * last)) return;
    last = norm(d.x);
    x += d.x;
    y += d.y;
    z += d.z;
    z_box += d.z_box;
  }
}

Linearised Linearised::by_set(const ActiveSetEngine& engine, Index column, const ConstraintSpace& space,
                              const DualState& state, std::shared_ptr<const OwnSpace> own) {
  return {.space = &space,
          .set = KeptSet(state),
          .refinements = engine.refined[at(column)] != 0 ? few_refinements : 0,
          .own = std::move(own)};
}

void BatchLinearisation::solve(const BatchProgram& program, Index first, PointBlock& t,
                               const std::vector<std::uint8_t>& wanted, int num_threads) const {
  const Index size = t.x.cols();
  const Chunks parts{.size = size, .width = chunks.width};
  const ScopedBlasThreads blas_threads(program.size == 1 ? program.n : 0, num_threads);
  const Index work = size * program.n * (program.n + program.m + program.p);
  parallel_for(parts.count(), threads_for(num_threads, work), [&](Index chunk) {
    const Spare<Columns> spare = Columns::spare();
    Columns& columns = *spare;
    for (Index c = parts.first(chunk), end = c; c < parts.last(chunk); c = end) {
      const Linearised& instance = instances[at(first + c)];
      end = c + 1;
      if (c % lanes == 0 && !quartets.empty()) solve_quartet(first, c, wanted, t);
      if (wanted[at(c)] == 0 || instance.quartet != nullptr) continue;
      if (instance.space == nullptr) {
        solve_elsewhere(instance, c, t);
        continue;
      }
      columns.sets.assign(1, &instance.set);
      columns.refinements = instance.refinements;
      for (; end < parts.last(chunk) && wanted[at(end)] != 0; ++end) {
        const Linearised& next = instances[at(first + end)];
        if (next.space != instance.space) break;
        columns.sets.push_back(&next.set);
        columns.refinements = std::max(columns.refinements, next.refinements);
      }
      columns.instance = instance_of(program, first + c);
      columns.instance.space = instance.space;
      solve_columns(columns, t.x.middleCols(c, end - c), t.y.middleCols(c, end - c),
                    t.z.middleCols(c, end - c), t.z_box.middleCols(c, end - c));
    }
  });
}

void BatchLinearisation::solve_quartet(Index first, Index column, const std::vector<std::uint8_t>& wanted,
                                       PointBlock& t) const {
  std::array<Index, lanes> columns{};
  columns.fill(-1);
  for (Index c = column; c < std::min(column + lanes, t.x.cols()); ++c)
    if (wanted[at(c)] != 0 && instances[at(first + c)].quartet != nullptr) columns[at(c - column)] = c;
  solve_lanes(quartets[at((first + column) / lanes)], columns, t);
}

void BatchLinearisation::solve_lanes(const Quartet& quartet, const std::array<Index, lanes>& columns,
                                     PointBlock& t) const {
  const Index n = t.x.rows();
  const Index m = t.z.rows();
  const Index p = t.y.rows();
  LaneArray<Quartet::largest> u{};  // n is smaller
  LaneArray<Quartet::largest> v{};
  LaneArray<Quartet::largest> r{};
  const auto each = [&](const auto& visit) {
    for (Index l = 0; l < lanes; ++l) {
      const Index c = columns[at(l)];
      if (c < 0) continue;
      for (Index i = 0; i < n; ++i) visit(t.x(i, c), u.numbers[at(i * lanes + l)]);
      for (Index i = 0; i < p; ++i) visit(t.y(i, c), v.numbers[at(i * lanes + l)]);
      for (Index i = 0; i < m; ++i) visit(t.z(i, c), r.numbers[at(i * lanes + l)]);
      for (std::size_t b = 0; b < bounded.size(); ++b)
        visit(t.z_box(bounded[b], c), r.numbers[(at(m) + b) * lanes + at(l)]);
    }
  };
  each([](double right_side, double& lane) { lane = -right_side; });
  quartet.solve_kkt(u.data(), v.data(), r.data());
  for (const Index c : columns)
    if (c >= 0) t.z_box.col(c).setZero();
  each([](double& target, double lane) { target = lane; });
}

void BatchLinearisation::solve_elsewhere(const Linearised& instance, Index column, PointBlock& t) {
  const bool boxed = t.z_box.rows() > 0;
  const PointBlock own = instance.other->solve(
      {.x = t.x.col(column),
       .y = t.y.col(column),
       .z = t.z.col(column),
       .z_box = boxed ? DenseMatrix(t.z_box.col(column)) : DenseMatrix::Zero(t.x.rows(), 1)});
  t.x.col(column) = own.x;
  t.y.col(column) = own.y;
  t.z.col(column) = own.z;
  if (boxed) t.z_box.col(column) = own.z_box;
}

PointBlock BatchLinearisation::solve(const BatchProgram& program, Index instance,
                                     const PointBlock& right_side) const {
  const Linearised& own = instances[at(instance)];
  if (own.other != nullptr) return own.other->solve(right_side);
  PointBlock t = right_side;
  if (own.quartet != nullptr) {
    std::array<Index, lanes> columns{};
    columns.fill(-1);
    for (Index c = 0; c < t.x.cols(); ++c) {
      columns[at(instance % lanes)] = c;
      solve_lanes(*own.quartet, columns, t);
    }
    return t;
  }
  Columns columns{
      .instance = instance_of(program, instance), .sets = {&own.set}, .refinements = own.refinements};
  columns.instance.space = own.space;
  solve_columns(columns, t.x, t.y, t.z, t.z_box);
  return t;
}

Vector BatchLinearisation::active_bounds(Index instance, Index n, Index m) const {
  const Linearised& own = instances[at(instance)];
  if (own.other != nullptr) return own.other->active().box;
  const Vector sides = active_sides(instance, m);
  Vector box = Vector::Zero(n);
  for (std::size_t i = 0; i < bounded.size(); ++i) box[bounded[i]] = sides[m + static_cast<Index>(i)];
  return box;
}

Vector BatchLinearisation::active_rows(Index instance, Index m) const {
  const Linearised& own = instances[at(instance)];
  if (own.other != nullptr) return own.other->active().z;
  return active_sides(instance, m).head(m).cwiseAbs();
}

Vector BatchLinearisation::active_sides(Index instance, Index m) const {
  const Linearised& own = instances[at(instance)];
  Vector sides = Vector::Zero(m + static_cast<Index>(bounded.size()));
  if (own.quartet != nullptr) {
    for (Index row = 0; row < sides.size(); ++row) sides[row] = own.quartet->side(row, instance % lanes);
  } else {
    for (Index s = 0; s < own.set.count(); ++s) sides[own.set.row(s)] = own.set.side(s);
  }
  return sides;
}

}  // namespace altdiff::detail
