#pragma once

#include <altdiff/batch.hpp>
#include <functional>

namespace altdiff {

/// What a term of an objective is. All but the first two are sums over the rows of t = M x - o, weighted:
/// sum_i w_i phi(t_i).
enum class TermKind {
  Quadratic,      ///< 1/2 x'P x + q'x
  LogSumExp,      ///< w log sum_i exp(t_i)
  Square,         ///< phi(t) = t^2 / 2
  Entropy,        ///< phi(t) = t log t, on t >= 0
  NegativeLog,    ///< phi(t) = -log t, on t > 0
  Softplus,       ///< phi(t) = log(1 + e^t)
  Exp,            ///< phi(t) = e^t
  PseudoHuber,    ///< phi(t) = sqrt(1 + t^2) - 1
  Power,          ///< phi(t) = |t|^power, power >= 2
  BinaryEntropy,  ///< phi(t) = t log t + (1 - t) log(1 - t), on 0 <= t <= 1
};

/// One summand of f. Fields are shared by all instances or each instance's own, as in BatchProgram; absent
/// ones are zero (P, q, offset), one (weight) or the identity (map).
struct Term {
  TermKind kind = TermKind::Quadratic;
  Index rows = 0;       ///< of the map; n where it is absent
  double power = 2;     ///< of Power
  BatchField P{};       ///< n x n, positive semidefinite
  BatchField q{};       ///< n
  BatchField weight{};  ///< rows, not negative; of LogSumExp a single number
  BatchField map{};     ///< M, rows x n
  BatchField offset{};  ///< o, rows
};

/// What the engine wants to know of a user's own f: everything at one point of each waiting instance.
struct Request {
  Index count = 0;                   ///< waiting instances
  const Index* instances = nullptr;  ///< which they are
  const double* x = nullptr;         ///< their points, n numbers each
  double* value = nullptr;           ///< f; a number that is not finite: x is outside the domain
  double* gradient = nullptr;        ///< n each
  double* hessian = nullptr;         ///< n x n each, or its diagonal, n each, where f is elementwise
};

/// minimise f(x; theta) subject to A x = b, G x <= h, lb <= x <= ub, f smooth and convex                (N1)
struct SmoothProgram {
  BatchProgram constraints{};                      ///< sizes, and G, h, A, b, lb, ub; P and q are absent
  std::vector<Term> terms{};                       ///< f is their sum, and that of
  std::function<void(const Request&)> evaluate{};  ///< the user's own f: called once a round; may be empty
  bool elementwise = false;                        ///< the user's own f is a sum of functions of one variable
  /// The largest share of the step d from x that stays inside the domain of the user's own f; may be empty.
  std::function<double(Index instance, const Vector& x, const Vector& d)> largest_step{};
};

namespace detail {
class EquivalentProgram;
}

/// As BatchSolution; the status NonConvex says that the Hessian of f has a negative direction.
struct SmoothSolution : BatchSolution {
  /// The quadratic program with the same solution, multipliers and derivatives.
  std::shared_ptr<const detail::EquivalentProgram> equivalent{};
};

/// Where to put the gradient of each field of a term; null: not wanted.
struct TermGradient {
  double* P = nullptr;
  double* q = nullptr;
  double* weight = nullptr;
  double* map = nullptr;
  double* offset = nullptr;
};

struct SmoothGradient {
  BatchGradient constraints{};        ///< of P and q: null
  std::vector<TermGradient> terms{};  ///< one a term, or none
  /// u, n numbers an instance: the gradient with respect to a change of grad f(x). That of theta is
  /// (d grad f / d theta)'u + objective_bar (d f / d theta).
  double* u = nullptr;
};

struct SmoothTangent {
  BatchProgram constraints{};        ///< changes of G, h, A, b, lb, ub; absent: none
  std::vector<Term> terms{};         ///< changes of the fields, one a term, or none
  const double* gradient = nullptr;  ///< a change of grad f(x) by other means, n an instance; null: none
};

/// Solves every instance. `initial` may be empty; its x is where to begin.
[[nodiscard]] SmoothSolution solve(const SmoothProgram& program, const Settings& settings = {},
                                   const PointBlock& initial = {});

/// Gradients of a loss; as for a BatchProgram.
void vjp(const SmoothProgram& program, const SmoothSolution& solution, const BatchCotangent& bar,
         const SmoothGradient& gradient, const Missing& missing = {}, int num_threads = 0);

/// Change of the solutions.
[[nodiscard]] PointBlock jvp(const SmoothProgram& program, const SmoothSolution& solution,
                             const SmoothTangent& dot, const Missing& missing = {}, int num_threads = 0);

}  // namespace altdiff
