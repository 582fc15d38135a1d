#pragma once

#include <altdiff/problem.hpp>
#include <concepts>
#include <functional>

namespace altdiff {

/// A smooth convex f(x; theta), of the library or of the user. `Hessian` is the matrix type of its Hessian,
/// whose pattern never changes; `Tangent` is a change of theta: its member function `directions()` says in
/// how many directions, or its member `q` has one column for each.
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

namespace detail {

/// Any objective, behind functions: what is compiled once for all of them.
template <Matrix M>
struct ErasedObjective {
  bool constant_hessian = false;
  std::function<Vector()> start{};
  std::function<double(const Vector&)> value{};
  std::function<double(const Vector&, const Vector&)> largest_step{};
  std::function<void(const Vector&, Vector&)> gradient{};
  std::function<void(const Vector&, M&)> hessian{};
  std::function<void(const Vector&, Eigen::Ref<DenseMatrix>)> add_cross{};  ///< along the change of theta
  Index directions = -1;                                                    ///< of that change; -1: none
  bool one_direction = false;  ///< because a matrix is among what changes
  Index rows = -1;             ///< of every matrix of the change, which should be n; -1: none
};

/// The objective and the change of theta outlive what is returned.
template <Objective F>
[[nodiscard]] ErasedObjective<typename F::Hessian> erased(const F& f, const typename F::Tangent& dtheta) {
  ErasedObjective<typename F::Hessian> e{
      .constant_hessian = F::constant_hessian,
      .start = [&f] { return Vector(f.start()); },
      .value = [&f](const Vector& x) { return f.value(x); },
      .largest_step = [&f](const Vector& x, const Vector& d) { return f.largest_step(x, d); },
      .gradient = [&f](const Vector& x, Vector& g) { f.gradient(x, g); },
      .hessian = [&f](const Vector& x, typename F::Hessian& H) { f.hessian(x, H); },
      .add_cross = [&f, &dtheta](const Vector& x,
                                 Eigen::Ref<DenseMatrix> block) { f.add_cross(x, dtheta, block); }};
  if constexpr (requires { dtheta.directions(); }) {
    e.directions = dtheta.directions();
  } else if constexpr (requires { dtheta.q.cols(); }) {
    if (dtheta.q.size() > 0) e.directions = dtheta.q.cols();
    if (dtheta.q.size() > 0) e.rows = dtheta.q.rows();
  }
  if constexpr (requires { dtheta.P.size(); }) {
    e.one_direction = dtheta.P.size() > 0;
    if (e.one_direction && (e.rows < 0 || e.rows == dtheta.P.cols())) e.rows = dtheta.P.rows();
  }
  return e;
}

}  // namespace detail

static_assert(Objective<Quadratic<DenseMatrix>> && Objective<Entropy<SparseMatrix>>);

}  // namespace altdiff
