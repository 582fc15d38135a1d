#include "batch/gradients.hpp"

#include <functional>

#include "batch/parallel_for.hpp"
#include "linalg/dense.hpp"
#include "linalg/threads.hpp"

namespace altdiff::detail {

namespace {

constexpr Index columns_at_once = 64;  // of a shared matrix's gradient: one task

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// left right' + other_left other_right', one column of each an instance.
struct OuterProducts {
  const DenseMatrix &left, &right, &other_left, &other_right;

  [[nodiscard]] Index rows() const { return left.rows(); }
  [[nodiscard]] Index columns() const { return right.rows(); }
};

/// The instances that use each array of a field.
std::vector<std::vector<Index>> users(const BatchProgram& program, const BatchField& field) {
  std::vector<std::vector<Index>> lists(at(field.count));
  for (Index i = 0; i < program.size; ++i) lists[at(field.of(i))].push_back(i);
  return lists;
}

/// One instance: a sum of two outer products, written once.
void write_outer(const OuterProducts& sum, Index instance, double* target) {
  const double* a = sum.left.data() + instance * sum.rows();
  const double* b = sum.other_left.data() + instance * sum.rows();
  for (Index j = 0; j < sum.columns(); ++j) {
    const double factor = sum.right(j, instance);
    const double other = sum.other_right(j, instance);
    double* column = target + j * sum.rows();
    for (Index i = 0; i < sum.rows(); ++i) column[i] = a[i] * factor + b[i] * other;
  }
}

/// All instances: products over the batch, some columns of the target a task.
void write_product(const OuterProducts& sum, double* target, int threads) {
  const Index tasks = (sum.columns() + columns_at_once - 1) / columns_at_once;
  parallel_for(tasks, threads, [&](Index task) {
    const Index first = task * columns_at_once;
    const Index count = std::min(columns_at_once, sum.columns() - first);
    Eigen::Map<DenseMatrix> block(target + first * sum.rows(), sum.rows(), count);
    multiply(Op::None, Op::Transpose, 1, sum.left, sum.right.middleRows(first, count), 0, block);
    multiply(Op::None, Op::Transpose, 1, sum.other_left, sum.other_right.middleRows(first, count), 1, block);
  });
}

/// Some instances.
void write_some(const OuterProducts& sum, const std::vector<Index>& instances, double* target) {
  const DenseMatrix left = sum.left(Eigen::all, instances);
  const DenseMatrix right = sum.right(Eigen::all, instances);
  const DenseMatrix other_left = sum.other_left(Eigen::all, instances);
  const DenseMatrix other_right = sum.other_right(Eigen::all, instances);
  write_product({left, right, other_left, other_right}, target, 1);
}

/// The transposed gradient of a matrix field: column after column is row after row for the user.
void write_matrix(const BatchProgram& program, const BatchField& field, const OuterProducts& sum, double* target,
                  int threads) {
  const Index entries = sum.rows() * sum.columns();
  if (field.count == 1 && field.which == nullptr) {
    write_product(sum, target, threads);
  } else if (field.which == nullptr) {
    parallel_for(program.size, threads, [&](Index i) { write_outer(sum, i, target + i * entries); });
  } else {
    const auto lists = users(program, field);
    parallel_for(field.count, threads, [&](Index a) { write_some(sum, lists[at(a)], target + a * entries); });
  }
}

void write_vector(const BatchProgram& program, const BatchField& field, const ConstBlock& own, double* target) {
  const Index entries = own.rows();
  Eigen::Map<DenseMatrix> total(target, entries, field.count);
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
  const int threads = threads_for(num_threads);
  const auto target = [&](Field field) { return gradient[static_cast<std::size_t>(field)]; };
  const auto matrix = [&](Field field, const OuterProducts& sum) {
    write_matrix(program, program[field], sum, target(field), threads);
  };
  const auto vector = [&](Field field, const ConstBlock& own) {
    write_vector(program, program[field], own, target(field));
  };
  if (target(Field::P) != nullptr) {
    const DenseMatrix half = 0.5 * with_envelope(u, x, bar, 0.5);
    matrix(Field::P, {half, x, x, half});  // (V2)
  }
  if (target(Field::q) != nullptr) vector(Field::q, with_envelope(u, x, bar));  // (V3)
  const DenseMatrix r_z = with_envelope(r, z, bar);
  const DenseMatrix v_y = with_envelope(v, y, bar);
  if (target(Field::G) != nullptr) matrix(Field::G, {x, r_z, u, z});  // (V4)
  if (target(Field::h) != nullptr) vector(Field::h, -r_z);            // (V5)
  if (target(Field::A) != nullptr) matrix(Field::A, {x, v_y, u, y});  // (V6)
  if (target(Field::b) != nullptr) vector(Field::b, -v_y);            // (V7)
  const auto bounds = [&](Field field, double side) {
    if (target(field) == nullptr) return;
    DenseMatrix own = (block.active_bounds.array() * side > 0).select(-r_box, 0.0 * r_box);
    if (bar.size() > 0) own -= (side * z_box).cwiseMax(0.0) * (side * bar).asDiagonal();
    vector(field, own);  // (V8)
  };
  bounds(Field::lb, -1);
  bounds(Field::ub, 1);
}

}  // namespace altdiff::detail
