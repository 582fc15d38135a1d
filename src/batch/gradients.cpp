#include "batch/gradients.hpp"

#include <functional>

#include "linalg/at.hpp"
#include "linalg/dense.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

namespace {

constexpr Index columns_at_once = 32;    // of a shared matrix's gradient: one task
constexpr Index block_side = 64;         // of a shared P's gradient: one task
constexpr Index instances_at_once = 16;  // with matrices of their own: one task

/// left right' + other_left other_right', one column of each an instance.
struct OuterProducts {
  ConstBlock left, right, other_left, other_right;
  bool symmetric = false;  // the sum is its own transpose

  [[nodiscard]] Index rows() const { return left.rows(); }
  [[nodiscard]] Index columns() const { return right.rows(); }
};

/// Instances that follow each other in the batch.
struct Instances {
  Index first = 0, count = 0;
  bool all = false;  // there are no others

  /// Whether each of them has its own array.
  [[nodiscard]] bool own(const BatchField& field) const {
    return field.which == nullptr && (field.count != 1 || (all && count == 1));
  }
  /// What a sum over the batch is multiplied with before these instances are added.
  [[nodiscard]] double beta() const { return first == 0 ? 0 : 1; }
};

/// One instance: some columns of a sum of two outer products, written once.
void write_outer(const OuterProducts& sum, Index column, Index first, Index count, double* target) {
  const double* a = sum.left.data() + column * sum.left.outerStride();
  const double* b = sum.other_left.data() + column * sum.other_left.outerStride();
  for (Index j = first; j < first + count; ++j) {
    const double factor = sum.right(j, column);
    const double other = sum.other_right(j, column);
    double* place = target + j * sum.rows();
    for (Index i = 0; i < sum.rows(); ++i) place[i] = a[i] * factor + b[i] * other;
  }
}

/// All instances: some columns of the products over them.
void add_columns(const OuterProducts& sum, double beta, Index first, Index count, double* target) {
  const Eigen::Map<DenseMatrix> block(target + first * sum.rows(), sum.rows(), count);
  multiply(Op::None, Op::Transpose, 1, sum.left, sum.right.middleRows(first, count), beta, block);
  multiply(Op::None, Op::Transpose, 1, sum.other_left, sum.other_right.middleRows(first, count), 1, block);
}

/// All instances: a block on or below the diagonal of a symmetric sum, and its mirror.
void add_mirrored(const OuterProducts& sum, double beta, Index row, Index column, double* target) {
  using Window = Eigen::Map<DenseMatrix, 0, Eigen::OuterStride<>>;
  const Index n = sum.rows();
  const Index rows = std::min(block_side, n - row);
  const Index columns = std::min(block_side, n - column);
  Window block(target + column * n + row, rows, columns, Eigen::OuterStride<>(n));
  multiply(Op::None, Op::Transpose, 1, sum.left.middleRows(row, rows), sum.right.middleRows(column, columns),
           beta, block);
  multiply(Op::None, Op::Transpose, 1, sum.other_left.middleRows(row, rows),
           sum.other_right.middleRows(column, columns), 1, block);
  if (row != column)
    Window(target + row * n + column, columns, rows, Eigen::OuterStride<>(n)) = block.transpose();
}

/// Some columns.
void add_some(const OuterProducts& sum, const std::vector<Index>& columns, double* target) {
  const DenseMatrix left = sum.left(Eigen::all, columns);
  const DenseMatrix right = sum.right(Eigen::all, columns);
  const DenseMatrix other_left = sum.other_left(Eigen::all, columns);
  const DenseMatrix other_right = sum.other_right(Eigen::all, columns);
  add_columns({.left = left, .right = right, .other_left = other_left, .other_right = other_right}, 1, 0,
              right.rows(), target);
}

/// Pieces of work on all matrices together, so that no thread waits for another between two of them.
class Tasks {
 public:
  explicit Tasks(const Instances& instances) : instances_(instances) {}

  /// The transposed gradient of a matrix field: column after column is row after row for the user.
  void add(const BatchField& field, const OuterProducts& sum, double* target) {
    if (field.which != nullptr) {
      add_broadcast(field, sum, target);
    } else if (instances_.own(field)) {
      add_own(sum, target);
    } else if (sum.symmetric) {
      for (Index column = 0; column < sum.columns(); column += block_side)
        for (Index row = column; row < sum.rows(); row += block_side)
          tasks_.emplace_back([sum, row, column, target, beta = instances_.beta()] {
            add_mirrored(sum, beta, row, column, target);
          });
    } else {
      for (Index first = 0; first < sum.columns(); first += columns_at_once)
        tasks_.emplace_back([sum, first, target, beta = instances_.beta()] {
          add_columns(sum, beta, first, std::min(columns_at_once, sum.columns() - first), target);
        });
    }
  }

  void run(int threads) const {
    parallel_for(static_cast<Index>(tasks_.size()), threads, [&](Index task) { tasks_[at(task)](); });
  }

 private:
  /// Several instances use one of several arrays.
  void add_broadcast(const BatchField& field, const OuterProducts& sum, double* target) {
    const Index entries = sum.rows() * sum.columns();
    if (instances_.first == 0) std::fill_n(target, field.count * entries, 0.0);
    std::vector<std::vector<Index>> users(at(field.count));
    for (Index c = 0; c < instances_.count; ++c) users[at(field.of(instances_.first + c))].push_back(c);
    for (Index a = 0; a < field.count; ++a)
      if (!users[at(a)].empty())
        tasks_.emplace_back(
            [sum, list = users[at(a)], place = target + a * entries] { add_some(sum, list, place); });
  }

  /// Each instance has its own array.
  void add_own(const OuterProducts& sum, double* target) {
    const Index entries = sum.rows() * sum.columns();
    const bool alone = instances_.count == 1;
    const Index pieces = alone ? (sum.columns() + columns_at_once - 1) / columns_at_once : 1;
    for (Index c = 0; c < instances_.count; c += instances_at_once)
      for (Index piece = 0; piece < pieces; ++piece) {
        const Index first = piece * columns_at_once;
        const Index columns = alone ? std::min(columns_at_once, sum.columns() - first) : sum.columns();
        const Index last = std::min(c + instances_at_once, instances_.count);
        tasks_.emplace_back([=, place = target + instances_.first * entries] {
          for (Index i = c; i < last; ++i) write_outer(sum, i, first, columns, place + i * entries);
        });
      }
  }

  Instances instances_;
  std::vector<std::function<void()>> tasks_{};
};

/// Adds `sign` times one column an instance.
void add_vector(const Instances& instances, const BatchField& field, double sign, const ConstBlock& own,
                double* target) {
  Eigen::Map<DenseMatrix> total(target, own.rows(), field.count);
  if (instances.own(field)) {
    total.middleCols(instances.first, instances.count) = sign * own;
    return;
  }
  if (instances.first == 0) total.setZero();
  for (Index c = 0; c < instances.count; ++c) total.col(field.of(instances.first + c)) += sign * own.col(c);
}

/// v + objective_bar lambda: what the multipliers add to the gradients of their rows. A copy only if they do.
class WithEnvelope {
 public:
  WithEnvelope(const ConstBlock& adjoint, const ConstBlock& multipliers, const Vector& bar, double factor = 1)
      : sum_(bar.size() == 0 ? DenseMatrix{}
                             : DenseMatrix(adjoint + factor * multipliers * bar.asDiagonal())),
        block(bar.size() == 0 ? adjoint : ConstBlock(sum_)) {}

 private:
  DenseMatrix sum_;

 public:
  ConstBlock block;
};

/// Adds left right' (and, for P, the symmetric part of it) to the array that instance i uses.
void add_outer(const BatchField& field, Index i, const Vector& left, const Vector& right, double* target) {
  if (target == nullptr || field.data == nullptr) return;
  Eigen::Map<DenseMatrix>(target + field.of(i) * left.size() * right.size(), right.size(), left.size()) +=
      right * left.transpose();
}

void add_turns(const BatchProgram& program, const AdjointBlock& block, const BatchGradient& gradient) {
  const auto target = [&](Field field) { return gradient[static_cast<std::size_t>(field)]; };
  for (const auto& [column, u, flat] : block.turns) {
    const Index i = block.first + column;
    add_outer(program[Field::P], i, 0.5 * flat, u->x, target(Field::P));
    add_outer(program[Field::P], i, u->x, 0.5 * flat, target(Field::P));
    add_outer(program[Field::G], i, u->z, flat, target(Field::G));
    add_outer(program[Field::A], i, u->y, flat, target(Field::A));
  }  // (L5)
}

}  // namespace

void write_gradients(const BatchProgram& program, const AdjointBlock& block, const BatchGradient& gradient,
                     int num_threads) {
  const auto& [x, y, z, z_box] = block.point;
  const auto& [u, v, r, r_box] = block.adjoint;
  const Vector& bar = block.objective_bar;
  const auto target = [&](Field field) { return gradient[static_cast<std::size_t>(field)]; };
  DenseMatrix half;
  if (target(Field::P) != nullptr) half = 0.5 * WithEnvelope(u, x, bar, 0.5).block;
  const WithEnvelope u_x(u, x, bar);
  const WithEnvelope r_z(r, z, bar);
  const WithEnvelope v_y(v, y, bar);
  const Instances instances{.first = block.first, .count = x.cols(), .all = x.cols() == program.size};
  Tasks matrices(instances);
  const auto matrix = [&](Field field, const OuterProducts& sum) {
    if (target(field) != nullptr) matrices.add(program[field], sum, target(field));
  };
  matrix(Field::P,
         {.left = half, .right = x, .other_left = x, .other_right = half, .symmetric = true});  // (V2)
  matrix(Field::G, {.left = x, .right = r_z.block, .other_left = u, .other_right = z});         // (V4)
  matrix(Field::A, {.left = x, .right = v_y.block, .other_left = u, .other_right = y});         // (V6)
  matrices.run(threads_for(num_threads, x.cols() * program.n * (program.n + program.m + program.p)));
  add_turns(program, block, gradient);
  const auto vector = [&](Field field, double sign, const ConstBlock& own) {
    if (target(field) != nullptr) add_vector(instances, program[field], sign, own, target(field));
  };
  vector(Field::q, 1, u_x.block);   // (V3)
  vector(Field::h, -1, r_z.block);  // (V5)
  vector(Field::b, -1, v_y.block);  // (V7)
  const auto bounds = [&](Field field, double side) {
    if (target(field) == nullptr) return;
    DenseMatrix own = (block.active_bounds.array() * side > 0).select(-r_box, 0.0 * r_box);
    if (bar.size() > 0) own -= (side * z_box).cwiseMax(0.0) * (side * bar).asDiagonal();
    vector(field, 1, own);  // (V8)
  };
  bounds(Field::lb, -1);
  bounds(Field::ub, 1);  // (V9) is the objective's part of all of these
}

}  // namespace altdiff::detail
