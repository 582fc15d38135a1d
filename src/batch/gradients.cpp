#include "batch/gradients.hpp"

#include <functional>

#include "linalg/dense.hpp"
#include "linalg/parallel_for.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

namespace {

constexpr Index columns_at_once = 32;    // of a shared matrix's gradient: one task
constexpr Index block_side = 64;         // of a shared P's gradient: one task
constexpr Index instances_at_once = 16;  // with matrices of their own: one task

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// left right' + other_left other_right', one column of each an instance.
struct OuterProducts {
  const DenseMatrix &left, &right, &other_left, &other_right;
  bool symmetric = false;  // the sum is its own transpose

  [[nodiscard]] Index rows() const { return left.rows(); }
  [[nodiscard]] Index columns() const { return right.rows(); }
};

/// The instances that use each array of a field.
std::vector<std::vector<Index>> users(const BatchProgram& program, const BatchField& field) {
  std::vector<std::vector<Index>> lists(at(field.count));
  for (Index i = 0; i < program.size; ++i) lists[at(field.of(i))].push_back(i);
  return lists;
}

/// One instance: some columns of a sum of two outer products, written once.
void write_outer(const OuterProducts& sum, Index instance, Index first, Index count, double* target) {
  const double* a = sum.left.data() + instance * sum.rows();
  const double* b = sum.other_left.data() + instance * sum.rows();
  for (Index j = first; j < first + count; ++j) {
    const double factor = sum.right(j, instance);
    const double other = sum.other_right(j, instance);
    double* column = target + j * sum.rows();
    for (Index i = 0; i < sum.rows(); ++i) column[i] = a[i] * factor + b[i] * other;
  }
}

/// All instances: some columns of the products over the batch.
void write_columns(const OuterProducts& sum, Index first, Index count, double* target) {
  if (sum.left.cols() == 1) {
    write_outer(sum, 0, first, count, target);
    return;
  }
  const Eigen::Map<DenseMatrix> block(target + first * sum.rows(), sum.rows(), count);
  multiply(Op::None, Op::Transpose, 1, sum.left, sum.right.middleRows(first, count), 0, block);
  multiply(Op::None, Op::Transpose, 1, sum.other_left, sum.other_right.middleRows(first, count), 1, block);
}

/// All instances: a block on or below the diagonal of a symmetric sum, and its mirror.
void write_mirrored(const OuterProducts& sum, Index row, Index column, double* target) {
  using Window = Eigen::Map<DenseMatrix, 0, Eigen::OuterStride<>>;
  const Index n = sum.rows();
  const Index rows = std::min(block_side, n - row);
  const Index columns = std::min(block_side, n - column);
  Window block(target + column * n + row, rows, columns, Eigen::OuterStride<>(n));
  multiply(Op::None, Op::Transpose, 1, sum.left.middleRows(row, rows), sum.right.middleRows(column, columns),
           0, block);
  multiply(Op::None, Op::Transpose, 1, sum.other_left.middleRows(row, rows),
           sum.other_right.middleRows(column, columns), 1, block);
  if (row != column)
    Window(target + row * n + column, columns, rows, Eigen::OuterStride<>(n)) = block.transpose();
}

/// Some instances.
void write_some(const OuterProducts& sum, const std::vector<Index>& instances, double* target) {
  const DenseMatrix left = sum.left(Eigen::all, instances);
  const DenseMatrix right = sum.right(Eigen::all, instances);
  const DenseMatrix other_left = sum.other_left(Eigen::all, instances);
  const DenseMatrix other_right = sum.other_right(Eigen::all, instances);
  const OuterProducts picked{
      .left = left, .right = right, .other_left = other_left, .other_right = other_right};
  write_columns(picked, 0, right.rows(), target);
}

/// Pieces of work on all matrices together, so that no thread waits for another between two of them.
class Tasks {
 public:
  explicit Tasks(const BatchProgram& program) : program_(program) {}

  /// The transposed gradient of a matrix field: column after column is row after row for the user.
  void add(const BatchField& field, const OuterProducts& sum, double* target) {
    const Index entries = sum.rows() * sum.columns();
    if (field.which != nullptr) {
      const auto lists = users(program_, field);
      for (Index a = 0; a < field.count; ++a)
        tasks_.emplace_back(
            [sum, list = lists[at(a)], place = target + a * entries] { write_some(sum, list, place); });
    } else if (field.count == 1 && sum.symmetric && program_.size > 1) {
      for (Index column = 0; column < sum.columns(); column += block_side)
        for (Index row = column; row < sum.rows(); row += block_side)
          tasks_.emplace_back([sum, row, column, target] { write_mirrored(sum, row, column, target); });
    } else if (field.count == 1) {
      for (Index first = 0; first < sum.columns(); first += columns_at_once)
        tasks_.emplace_back([sum, first, target] {
          write_columns(sum, first, std::min(columns_at_once, sum.columns() - first), target);
        });
    } else {
      for (Index first = 0; first < program_.size; first += instances_at_once)
        tasks_.emplace_back(
            [sum, first, target, entries, last = std::min(first + instances_at_once, program_.size)] {
              for (Index i = first; i < last; ++i)
                write_outer(sum, i, 0, sum.columns(), target + i * entries);
            });
    }
  }

  void run(int threads) const {
    parallel_for(static_cast<Index>(tasks_.size()), threads, [&](Index task) { tasks_[at(task)](); });
  }

 private:
  const BatchProgram& program_;
  std::vector<std::function<void()>> tasks_{};
};

void write_vector(const BatchProgram& program, const BatchField& field, const ConstBlock& own,
                  double* target) {
  Eigen::Map<DenseMatrix> total(target, own.rows(), field.count);
  if (field.which == nullptr && field.count == program.size) {
    total = own;
    return;
  }
  total.setZero();
  for (Index i = 0; i < program.size; ++i) total.col(field.of(i)) += own.col(i);
}

/// v + objective_bar lambda: what the multipliers add to the gradients of their rows.
DenseMatrix with_envelope(const DenseMatrix& adjoint, const DenseMatrix& multipliers, const Vector& bar,
                          double factor = 1) {
  if (bar.size() == 0) return adjoint;
  return adjoint + factor * multipliers * bar.asDiagonal();
}

}  // namespace

void write_gradients(const BatchProgram& program, const AdjointBlock& block, const BatchGradient& gradient,
                     int num_threads) {
  const auto& [x, y, z, z_box] = block.point;
  const auto& [u, v, r, r_box] = block.adjoint;
  const Vector& bar = block.objective_bar;
  const auto target = [&](Field field) { return gradient[static_cast<std::size_t>(field)]; };
  const DenseMatrix half = 0.5 * with_envelope(u, x, bar, 0.5);
  const DenseMatrix r_z = with_envelope(r, z, bar);
  const DenseMatrix v_y = with_envelope(v, y, bar);
  Tasks matrices(program);
  const auto matrix = [&](Field field, const OuterProducts& sum) {
    if (target(field) != nullptr) matrices.add(program[field], sum, target(field));
  };
  matrix(Field::P,
         {.left = half, .right = x, .other_left = x, .other_right = half, .symmetric = true});  // (V2)
  matrix(Field::G, {.left = x, .right = r_z, .other_left = u, .other_right = z});               // (V4)
  matrix(Field::A, {.left = x, .right = v_y, .other_left = u, .other_right = y});               // (V6)
  matrices.run(threads_for(num_threads, program.size * program.n * (program.n + program.m + program.p)));
  const auto vector = [&](Field field, const ConstBlock& own) {
    if (target(field) != nullptr) write_vector(program, program[field], own, target(field));
  };
  vector(Field::q, with_envelope(u, x, bar));  // (V3)
  vector(Field::h, -r_z);                      // (V5)
  vector(Field::b, -v_y);                      // (V7)
  const auto bounds = [&](Field field, double side) {
    if (target(field) == nullptr) return;
    DenseMatrix own = (block.active_bounds.array() * side > 0).select(-r_box, 0.0 * r_box);
    if (bar.size() > 0) own -= (side * z_box).cwiseMax(0.0) * (side * bar).asDiagonal();
    vector(field, own);  // (V8)
  };
  bounds(Field::lb, -1);
  bounds(Field::ub, 1);  // (V9) is the objective's part of all of these
}

}  // namespace altdiff::detail
