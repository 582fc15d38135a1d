// An objective of one's own: how to share a budget of one between three uses, when f(x; a) = sum log cosh(x -
// a) says how far each share is from what was asked for, a. Solved, differentiated, and checked against the
// paper's algorithm.
#include <altdiff/altdiff.hpp>
#include <cmath>
#include <iostream>
#include <limits>

namespace {

using altdiff::DenseMatrix;
using altdiff::Vector;

/// f(x; a) = sum log cosh(x_i - a_i): quadratic near a, linear far away. This is all that the library asks
/// for.
struct LogCosh {
  using Hessian = DenseMatrix;
  struct Tangent {
    DenseMatrix a{};  // a change of a, one column a direction
    [[nodiscard]] altdiff::Index directions() const { return a.cols(); }
  };
  static constexpr bool constant_hessian = false;

  Vector a;

  [[nodiscard]] Vector start() const { return Vector::Zero(a.size()); }
  [[nodiscard]] double value(const Vector& x) const { return (x - a).array().cosh().log().sum(); }
  [[nodiscard]] double largest_step(const Vector& /*x*/, const Vector& /*d*/) const {
    return std::numeric_limits<double>::infinity();  // f is defined everywhere
  }
  void gradient(const Vector& x, Vector& g) const { g = (x - a).array().tanh(); }
  void hessian(const Vector& x, DenseMatrix& H) const { H = curvature(x).asDiagonal(); }
  // grad f depends on a as it does on -x.
  void add_cross(const Vector& x, const Tangent& da, Eigen::Ref<DenseMatrix> block) const {
    block -= curvature(x).asDiagonal() * da.a;
  }

  [[nodiscard]] Vector curvature(const Vector& x) const { return (x - a).array().cosh().square().inverse(); }
};

}  // namespace

int main() {
  const LogCosh f{.a = Vector{{0.9, 0.5, 0.1}}};
  const altdiff::Constraints<DenseMatrix> budget{
      .A = DenseMatrix::Ones(1, 3), .b = Vector::Ones(1), .lb = Vector::Zero(3)};

  const auto solution = altdiff::solve(f, budget);
  std::cout << altdiff::name(solution.status) << ", x = " << solution.x.transpose() << '\n';

  // The gradient of the first share with respect to a: (d grad f / da)'u.
  const auto bar = altdiff::vjp(solution, {.x = Vector{{1.0, 0.0, 0.0}}});
  const Vector a_bar = -f.curvature(solution.x).cwiseProduct(bar.u);
  std::cout << "dx_1/da = " << a_bar.transpose() << '\n';

  const auto paper = altdiff::alternating_differentiation(f, budget, {.a = DenseMatrix::Identity(3, 3)}, {},
                                                          {.tolerance = 1e-10});
  const double difference = (paper.jacobian.row(0).transpose() - a_bar).norm();
  std::cout << "the paper's algorithm differs by " << difference << '\n';
  return solution.status == altdiff::Status::Solved && difference < 1e-6 ? 0 : 1;
}
