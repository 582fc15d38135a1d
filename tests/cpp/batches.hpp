#pragma once

#include <altdiff/altdiff.hpp>
#include <altdiff/batch.hpp>
#include <array>
#include <deque>
#include <vector>

#include "random_problems.hpp"

namespace altdiff::test {

inline constexpr std::array all_fields{Field::P, Field::q, Field::G,  Field::h,
                                       Field::A, Field::b, Field::lb, Field::ub};

/// Calls `action` with a field of a program.
template <class Program, class Action>
void with_field(Program& qp, Field field, const Action& action) {
  switch (field) {
    case Field::P:
      return action(qp.P);
    case Field::q:
      return action(qp.q);
    case Field::G:
      return action(qp.G);
    case Field::h:
      return action(qp.h);
    case Field::A:
      return action(qp.A);
    case Field::b:
      return action(qp.b);
    case Field::lb:
      return action(qp.lb);
    case Field::ub:
      return action(qp.ub);
  }
}

/// A field as a matrix; a vector is one column.
inline DenseMatrix value_of(const QuadraticProgram<>& qp, Field field) {
  DenseMatrix value;
  with_field(qp, field, [&](const auto& own) { value = own; });
  return value;
}

inline void copy_field(const QuadraticProgram<>& from, QuadraticProgram<>& to, Field field) {
  with_field(to, field, [&](auto& own) { own = value_of(from, field); });
}

inline Point column_of(const PointBlock& block, Index i) {
  const bool boxed = block.z_box.rows() > 0;  // not of a batch without bounds
  return {.x = block.x.col(i),
          .y = block.y.col(i),
          .z = block.z.col(i),
          .z_box = boxed ? Vector(block.z_box.col(i)) : Vector(Vector::Zero(block.x.rows()))};
}

/// Programs as a batch, with its arrays. `instances` are what is solved, whatever is shared.
class Batch {
 public:
  explicit Batch(std::vector<QuadraticProgram<>> programs, const std::vector<Field>& shared = {})
      : instances(std::move(programs)) {
    const QuadraticProgram<>& first = instances.front();
    program = {.size = size(), .n = first.n(), .m = first.m(), .p = first.p()};
    for (const Field field : all_fields) set_arrays(field, size());
    for (const Field field : shared) share(field);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  [[nodiscard]] Index size() const { return static_cast<Index>(instances.size()); }

  /// All instances use the first one's array.
  void share(Field field) {
    for (auto& qp : instances) copy_field(instances.front(), qp, field);
    set_arrays(field, 1);
  }
  /// Instance i uses the array of instance which[i], of which there are `count`.
  void map(Field field, const std::vector<Index>& which, Index count) {
    set_arrays(field, count);
    const auto sources = instances;
    for (std::size_t i = 0; i < instances.size(); ++i)
      copy_field(sources[static_cast<std::size_t>(which[i])], instances[i], field);
    program[field].which = maps_.emplace_back(which).data();
  }

  std::vector<QuadraticProgram<>> instances;
  BatchProgram program{};

 private:
  void set_arrays(Field field, Index count) {
    auto& numbers = arrays_[static_cast<std::size_t>(field)];
    numbers.clear();
    for (Index i = 0; i < count; ++i) {
      const DenseMatrix rows = value_of(instances[static_cast<std::size_t>(i)], field).transpose();
      numbers.insert(numbers.end(), rows.data(), rows.data() + rows.size());
    }
    program[field] = {.data = numbers.empty() ? nullptr : numbers.data(), .count = count};
  }

  std::array<std::vector<double>, 8> arrays_{};
  std::deque<std::vector<Index>> maps_{};
};

/// Normal cotangents or tangents for a batch.
inline PointBlock random_bars(Random& random, const BatchProgram& program) {
  return {.x = random.normals(program.n, program.size),
          .y = random.normals(program.p, program.size),
          .z = random.normals(program.m, program.size),
          .z_box = random.normals(program.n, program.size)};
}

inline BatchCotangent cotangent(const PointBlock& bar) {
  return {.x = bar.x.data(), .y = bar.y.data(), .z = bar.z.data(), .z_box = bar.z_box.data()};
}

/// The gradients of all fields, with the memory that they are written to.
class Gradients {
 public:
  Gradients(const BatchProgram& program, const BatchSolution& solution, const BatchCotangent& bar,
            const Missing& missing = {}, int num_threads = 0)
      : program_(program) {
    BatchGradient targets{};
    for (const Field field : all_fields) {
      const auto f = static_cast<std::size_t>(field);
      if (program[field].data == nullptr) continue;
      numbers[f].assign(static_cast<std::size_t>(program[field].count * entries(field)), 1e300);
      targets[f] = numbers[f].data();
    }
    vjp(program, solution, bar, targets, missing, num_threads);
  }

  /// The gradient of one array of a field; a vector is one column.
  [[nodiscard]] DenseMatrix of(Field field, Index array) const {
    const auto& own = numbers[static_cast<std::size_t>(field)];
    const Index rows = shape(field).second;
    return Eigen::Map<const DenseMatrix>(own.data() + array * entries(field), entries(field) / rows, rows)
        .transpose();
  }

  std::array<std::vector<double>, 8> numbers{};

 private:
  /// Columns and rows for the user.
  [[nodiscard]] std::pair<Index, Index> shape(Field field) const {
    const Index n = program_.n;
    switch (field) {
      case Field::P:
        return {n, n};
      case Field::G:
        return {n, program_.m};
      case Field::A:
        return {n, program_.p};
      case Field::h:
        return {1, program_.m};
      case Field::b:
        return {1, program_.p};
      default:
        return {1, n};
    }
  }
  [[nodiscard]] Index entries(Field field) const { return shape(field).first * shape(field).second; }

  BatchProgram program_;
};

}  // namespace altdiff::test
