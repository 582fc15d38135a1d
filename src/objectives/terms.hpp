#pragma once

#include <cmath>

#include "linalg/products.hpp"
#include "linalg/spares.hpp"
#include "objectives/phi.hpp"

namespace altdiff::detail {

/// phi and its first two derivatives at the rows of a term.
struct RowSlopes {
  Eigen::ArrayXd value{}, first{}, second{};
};

/// An f that is easier to begin with: from afar log-sum-exp, softplus and pseudo-Huber are piecewise linear,
/// with kinks that tau phi(t / tau) rounds off over a width of tau; -beta log of the distance to the end of a
/// domain keeps t away from it. One and zero: f itself. (N14)
struct Temperature {
  double width = 1;    ///< tau
  double barrier = 0;  ///< beta

  [[nodiscard]] bool hot() const { return width > 1 || barrier > 0; }
};

/// One term of one instance, with its fields where they lie in memory; null: absent.
class InstanceTerm {
 public:
  using View = Eigen::Ref<const Vector>;

  InstanceTerm(const Term& term, Index instance, Index n);

  /// What evaluations write to, again and again.
  struct Workspace {
    Vector t{}, wide{};
    Eigen::ArrayXd value{}, first{}, second{};
    DenseMatrix scaled{}, product{};

    /// The row with the largest `first`; any where there are NaN, of which Eigen's own search has none.
    [[nodiscard]] Index heaviest() const {
      Index place = 0;
      for (Index i = 1; i < first.size(); ++i)
        if (first[i] > first[place]) place = i;
      return place;
    }
    [[nodiscard]] Index numbers() const {
      return 4 * t.size() + wide.size() + scaled.size() + product.size();
    }
  };

  /// One for terms with so many rows.
  static Spare<Workspace> workspace(Index rows);

  /// Whether the numbers make sense: finite, and no negative weight.
  [[nodiscard]] bool valid() const;

  /// Adds grad f, and the Hessian unless it is null (n x n); returns f, not finite outside the domain.
  double add(const double* x, double* gradient, double* hessian, Workspace& w) const;

  /// Rows without a map that these bounds hold at the end of a closed domain: they have the slope of the
  /// number next to it, and no curvature.
  void hold_ends(const View& lb, const View& ub);

  /// Adds the sizes of the numbers that the gradient is a sum of.
  void add_summands(const View& x, Vector& sizes) const;

  /// For derivatives at a solution whose rows are known better than M x tells; null: they are not.
  void know_rows(const RowSlopes* known) { known_ = known; }

  /// An f that is easier to begin with.                                                               (N14)
  void set_temperature(const Temperature& now) { temperature_ = now; }
  /// What makes kinks as wide as the rows are apart at x, and barriers push as hard as this gradient.
  [[nodiscard]] Temperature hottest(const View& x, double gradient) const;
  /// How steep the term may be anywhere; zero if there is no limit.
  [[nodiscard]] double steepest() const;
  /// Rows of e^t, which is larger than any number where t is large: M x - s <= o + 20, s behind delta.
  [[nodiscard]] Index reach_rows() const { return phi_.kind == TermKind::Exp ? rows_ : 0; }
  Index add_reach(Index first, DenseMatrix& G, Vector& h) const;
  /// Whether phi is not defined for all numbers.
  [[nodiscard]] bool has_domain() const {
    return !quadratic() && (std::isfinite(phi_.lower()) || std::isfinite(phi_.upper()));
  }

  /// The largest share of the step d that stays clearly inside the domain, at most `longest`.
  [[nodiscard]] double largest_step(const View& x, const View& d, double longest, Workspace& w) const;

  /// Whether a row of M x - o is so close to the end of the domain that rounding, or so many, hide how close.
  [[nodiscard]] bool hidden_by_rounding(const View& x, double roundings = 1) const;

  /// Rows that say that t is inside the domain by delta, the last variable.
  [[nodiscard]] Index domain_rows() const;
  /// Writes them from row `first` on; returns the row behind the last.
  Index add_domain(Index first, DenseMatrix& G, Vector& h) const;

  /// Adds d(grad f)/dtheta along `dot`, the change of this term's fields.
  void add_cross(const double* x, const InstanceTerm& dot, double* gradient, Workspace& w) const;

  /// Adds to the gradients of the fields: that of u'grad f + objective_bar f.
  void pull_back(const double* x, const double* u, double objective_bar, const TermGradient& target,
                 Workspace& w) const;

  /// Adds what a change of the fields does to H u, but for what no flat direction sees.            (N18)
  void add_turned(const double* x, const double* u, const InstanceTerm& dot, double* gradient,
                  Workspace& w) const;

  /// Adds to the gradients of the fields: that of flat'H u, where H flat = 0.                         (N18)
  void pull_back_turned(const double* x, const double* flat, const double* u, const TermGradient& target,
                        Workspace& w) const;

  /// Whether the row counts: one without a weight does not, nor does its domain.
  [[nodiscard]] bool present(Index i) const { return weight(i) > 0; }
  [[nodiscard]] bool quadratic() const { return phi_.kind == TermKind::Quadratic; }
  [[nodiscard]] bool diagonal() const;  ///< its Hessian is
  [[nodiscard]] const Phi& phi() const { return phi_; }
  /// Whether the row cannot move: bounds hold it at the end of its domain, or it is one of zeros.
  [[nodiscard]] bool held(Index i) const { return !held_.empty() && held_[static_cast<std::size_t>(i)] != 0; }
  [[nodiscard]] bool limited(Index i) const { return present(i) && !held(i); }  ///< by its domain
  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] Vector row(Index i) const {
    return map_ == nullptr ? Vector(Vector::Unit(n_, i)) : M().col(i);
  }
  [[nodiscard]] const double* P() const { return P_; }
  [[nodiscard]] const double* q() const { return q_; }
  [[nodiscard]] const double* weight() const { return weight_; }
  [[nodiscard]] const double* map() const { return map_; }
  [[nodiscard]] const double* offset() const { return offset_; }

 private:
  using Rows = Eigen::Map<const DenseMatrix>;  // one column a row of the user's matrix

  [[nodiscard]] Rows M() const { return {map_, n_, rows_}; }
  [[nodiscard]] double weight(Index i) const { return weight_ == nullptr ? 1 : weight_[i]; }
  void hold_constant_rows();
  void set_t(const double* x, Vector& t) const;          ///< t = M x - o
  void set_direction(const double* d, Vector& a) const;  ///< a = M d
  /// Whether a row at the end of a closed domain has derivatives: on the way only where bounds hold it there.
  enum class Ends : std::uint8_t { Held, All };
  /// Weighted first and second derivatives; f.
  double differentiate(const double* x, Workspace& w, Ends ends) const;
  void evaluate_rows(Workspace& w, Ends ends) const;  ///< at w.t, without weights
  [[nodiscard]] bool kinked() const;                  ///< from afar
  void add_weights(Workspace& w) const;
  void add_barrier(Workspace& w) const;
  [[nodiscard]] Workspace without_weights(const Workspace& w) const;
  void add_hessian(double* hessian, Workspace& w) const;
  void scale_centred_rows(Workspace& w) const;
  void add_softmax_hessian(Eigen::Map<DenseMatrix>& H, const Workspace& w) const;
  [[nodiscard]] Vector bent_rows(const double* x, const double* u, Workspace& w) const;
  [[nodiscard]] static Vector bent(const Workspace& w, const Vector& v);
  [[nodiscard]] Vector centred(const Workspace& w, const Vector& v) const;
  double add_quadratic(const double* x, double* gradient, double* hessian, Workspace& w) const;
  void add_quadratic_cross(const double* x, const InstanceTerm& dot, double* gradient) const;
  void pull_back_quadratic(const double* x, const double* u, double objective_bar,
                           const TermGradient& target) const;

  Phi phi_;
  Index n_, rows_;
  const double* P_;
  const double* q_;
  const double* weight_;
  const double* map_;
  const double* offset_;
  std::vector<std::uint8_t> held_{};  // rows; empty: none
  Temperature temperature_{};
  const RowSlopes* known_ = nullptr;
};

}  // namespace altdiff::detail
