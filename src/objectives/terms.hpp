#pragma once

#include "linalg/products.hpp"
#include "linalg/spares.hpp"
#include "objectives/phi.hpp"

namespace altdiff::detail {

/// phi and its first two derivatives at the rows of a term.
struct RowSlopes {
  Eigen::ArrayXd value{}, first{}, second{};
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

  /// The largest share of the step d that stays clearly inside the domain, at most `longest`.
  [[nodiscard]] double largest_step(const View& x, const View& d, double longest, Workspace& w) const;

  /// Whether a row of M x - o is so close to the end of the domain that rounding hides how close.
  [[nodiscard]] bool hidden_by_rounding(const View& x) const;

  /// Rows that say that t is inside the domain by delta, the last variable.
  [[nodiscard]] Index domain_rows() const;
  /// Writes them from row `first` on; returns the row behind the last.
  Index add_domain(Index first, DenseMatrix& G, Vector& h) const;

  /// Adds d(grad f)/dtheta along `dot`, the change of this term's fields.
  void add_cross(const double* x, const InstanceTerm& dot, double* gradient, Workspace& w) const;

  /// Adds to the gradients of the fields: that of u'grad f + objective_bar f.
  void pull_back(const double* x, const double* u, double objective_bar, const TermGradient& target,
                 Workspace& w) const;

  /// Whether the row counts: one without a weight does not, nor does its domain.
  [[nodiscard]] bool present(Index i) const { return weight(i) > 0; }
  [[nodiscard]] bool quadratic() const { return phi_.kind == TermKind::Quadratic; }
  [[nodiscard]] bool diagonal() const;  ///< its Hessian is
  [[nodiscard]] const Phi& phi() const { return phi_; }
  /// Whether bounds hold the row at the end of its domain.
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
  void set_t(const double* x, Vector& t) const;          ///< t = M x - o
  void set_direction(const double* d, Vector& a) const;  ///< a = M d
  /// Whether a row at the end of a closed domain has derivatives: on the way only where bounds hold it there.
  enum class Ends : std::uint8_t { Held, All };
  /// Weighted first and second derivatives; f.
  double differentiate(const double* x, Workspace& w, Ends ends) const;
  void evaluate_rows(Workspace& w, Ends ends) const;  ///< at w.t, without weights
  [[nodiscard]] Workspace without_weights(const Workspace& w) const;
  void add_hessian(double* hessian, Workspace& w) const;
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
  const RowSlopes* known_ = nullptr;
};

}  // namespace altdiff::detail
