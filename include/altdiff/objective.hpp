#pragma once

#include <altdiff/problem.hpp>
#include <concepts>

namespace altdiff {

/// A smooth convex f(x; theta). `Hessian` is the matrix type of its Hessian, whose pattern never changes;
/// `Tangent` is a change of theta, one column a direction.
template <class F>
concept Objective = Matrix<typename F::Hessian> &&
                    requires(const F& f, const Vector& x, Vector& g, typename F::Hessian& H,
                             const typename F::Tangent& dtheta, Eigen::Ref<DenseMatrix> block) {
                      { F::constant_hessian } -> std::convertible_to<bool>;
                      { f.start() } -> std::convertible_to<Vector>;  // a point of the domain
                      { f.value(x) } -> std::convertible_to<double>;
                      {
                        f.largest_step(x, x)
                      } -> std::convertible_to<double>;  // t such that x + t d stays inside
                      f.gradient(x, g);                  // g = grad f
                      f.hessian(x, H);                   // H = Hessian of f
                      f.add_cross(x, dtheta, block);     // block += d(grad f)/dtheta dtheta
                    };

/// f(x; P, q) = 1/2 x'P x + q'x, P symmetric
template <Matrix M>
struct Quadratic {
  using Hessian = M;
  struct Tangent {
    M P{};
    DenseMatrix q{};
  };
  static constexpr bool constant_hessian = true;

  M P;
  Vector q;

  [[nodiscard]] Vector start() const { return Vector::Zero(q.size()); }
  [[nodiscard]] double value(const Vector& x) const;
  [[nodiscard]] double largest_step(const Vector& x, const Vector& d) const;
  void gradient(const Vector& x, Vector& g) const;
  void hessian(const Vector& x, M& H) const;
  void add_cross(const Vector& x, const Tangent& dtheta, Eigen::Ref<DenseMatrix> block) const;
};

/// f(x; q) = q'x + sum x_i log x_i on x >= 0. The paper's softmax layer has q = -y.
template <Matrix M>
struct Entropy {
  using Hessian = M;
  struct Tangent {
    DenseMatrix q{};
  };
  static constexpr bool constant_hessian = false;

  Vector q;

  [[nodiscard]] Vector start() const;
  [[nodiscard]] double value(const Vector& x) const;
  [[nodiscard]] double largest_step(const Vector& x, const Vector& d) const;
  void gradient(const Vector& x, Vector& g) const;
  void hessian(const Vector& x, M& H) const;
  void add_cross(const Vector& x, const Tangent& dtheta, Eigen::Ref<DenseMatrix> block) const;
};

extern template struct Quadratic<DenseMatrix>;
extern template struct Quadratic<SparseMatrix>;
extern template struct Entropy<DenseMatrix>;
extern template struct Entropy<SparseMatrix>;

static_assert(Objective<Quadratic<DenseMatrix>> && Objective<Entropy<SparseMatrix>>);

}  // namespace altdiff
