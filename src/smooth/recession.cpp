#include "smooth/recession.hpp"

#include <cmath>
#include <limits>

#include "problem/checks.hpp"
#include "solve_one.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nothing = 1e-9;  // of a row of unit length
constexpr double clearly = 1e-6;  // the least fall of a ray

/// (N10), row by row. Its variables are d and, for each kink of f_inf, a number that is at least f_inf.
class Recession {
 public:
  Recession(const std::vector<InstanceTerm>& terms, const Instance& instance, const Vector& x)
      : n_(x.size()), fall_(Vector::Zero(n_)) {
    for (const InstanceTerm& term : terms) add_term(term, x);
    add_constraints(instance);
  }

  [[nodiscard]] QuadraticProgram<DenseMatrix> program() const {
    QuadraticProgram<DenseMatrix> qp;
    qp.P = DenseMatrix::Zero(width(), width());
    qp.A = stacked(zero_);
    qp.b = Vector::Zero(qp.A.rows());
    qp.G = stacked(negative_);
    qp.G.conservativeResize(qp.G.rows() + 1, width());
    qp.G.bottomRows(1) = asymptote().transpose();
    qp.h = Vector::Zero(qp.G.rows());
    qp.q = asymptote();
    qp.q.head(n_) -= fall_;
    for (const auto& [kink, slope] : bends_) qp.q[n_ + kink] -= slope;
    qp.lb = Vector::Constant(width(), -infinity);
    qp.ub = Vector::Constant(width(), infinity);
    qp.lb.head(n_).setConstant(-1);
    qp.ub.head(n_).setConstant(1);
    return qp;
  }

  /// Whether v is what was looked for.
  [[nodiscard]] std::optional<Ray> judge(const Vector& v) const {
    const double size = v.head(n_).cwiseAbs().maxCoeff();
    if (!(size > clearly)) return {};
    Vector ray = v / size;
    ray.tail(kinks_).setConstant(-infinity);
    for (const Row& row : negative_)
      if (row.kink >= 0) ray[n_ + row.kink] = std::max(ray[n_ + row.kink], row.d.dot(ray.head(n_)));
    const double slope = asymptote().dot(ray);
    double fall = fall_.dot(ray.head(n_));
    for (const auto& [kink, share] : bends_) fall += share * ray[n_ + kink];
    double worst = slope;
    for (const Row& row : zero_) worst = std::max(worst, std::abs(row.times(ray)));
    for (const Row& row : negative_) worst = std::max(worst, row.times(ray));
    if (!(worst <= nothing) || !(std::max(fall, -slope) > clearly)) return {};
    double logarithms = 0;
    for (const Vector& row : logarithms_) logarithms = std::max(logarithms, row.dot(ray.head(n_)));
    return Ray{.d = ray.head(n_), .endless = slope < -clearly || logarithms > clearly};
  }

 private:
  struct Row {
    Vector d{};
    Index kink = -1;  // minus this variable
    [[nodiscard]] double times(const Vector& v) const {
      return d.dot(v.head(d.size())) - (kink < 0 ? 0 : v[d.size() + kink]);
    }
  };

  [[nodiscard]] Index width() const { return n_ + kinks_; }

  /// f_inf, linear in d and the kinks, with slopes of at most one.
  [[nodiscard]] Vector asymptote() const {
    Vector sum = Vector::Zero(width());
    if (q_.size() > 0) sum.head(n_) = q_;
    for (Index k = 0; k < kinks_; ++k) sum[n_ + k] = weights_[static_cast<std::size_t>(k)];
    const double size = sum.cwiseAbs().maxCoeff();
    return size > 0 ? Vector(sum / size) : sum;
  }

  [[nodiscard]] DenseMatrix stacked(const std::vector<Row>& rows) const {
    DenseMatrix matrix = DenseMatrix::Zero(static_cast<Index>(rows.size()), width());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      matrix.row(static_cast<Index>(i)).head(n_) = rows[i].d.transpose();
      if (rows[i].kink >= 0) matrix(static_cast<Index>(i), n_ + rows[i].kink) = -1;
    }
    return matrix;
  }

  static void add(std::vector<Row>& rows, const Vector& row) {
    const double size = row.norm();
    if (size > 0) rows.push_back({.d = row / size});
  }

  void add_term(const InstanceTerm& term, const Vector& x) {
    if (term.quadratic()) {
      if (term.q() != nullptr) {
        if (q_.size() == 0) q_.setZero(n_);
        q_ += Eigen::Map<const Vector>(term.q(), n_);
      }
      if (term.P() == nullptr) return;
      const Eigen::Map<const DenseMatrix> P(term.P(), n_, n_);
      for (Index j = 0; j < n_; ++j) add(zero_, 0.5 * (P.row(j).transpose() + P.col(j)));
    } else if (term.phi().kind == TermKind::LogSumExp) {
      add_largest(term);
    } else {
      for (Index i = 0; i < term.rows(); ++i)
        if (term.present(i)) add_row(term, i, x);
    }
  }

  /// The largest of M d, which log-sum-exp is from afar; it bends unless all of M d are alike.
  void add_largest(const InstanceTerm& term) {
    const double weight = term.weight() == nullptr ? 1 : term.weight()[0];
    if (!(weight > 0) || term.rows() == 0) return;
    const Index kink = new_kink(weight);
    for (Index i = 0; i < term.rows(); ++i) {
      const Vector row = term.row(i);
      negative_.push_back({.d = row, .kink = kink});
      fall_ -= row;
    }
    bends_.emplace_back(kink, static_cast<double>(term.rows()));
  }

  Index new_kink(double weight) {
    weights_.push_back(weight);
    return kinks_++;
  }

  void add_row(const InstanceTerm& term, Index i, const Vector& x) {
    const Vector row = term.row(i);
    const double size = row.norm();
    if (!(size > 0)) return;
    const Vector unit = row / size;
    const double t = row.dot(x) - (term.offset() == nullptr ? 0 : term.offset()[i]);
    const double weight = size * (term.weight() == nullptr ? 1 : term.weight()[i]);
    switch (term.phi().kind) {
      case TermKind::Exp:
        add(negative_, row);
        fall_ -= unit;
        break;
      case TermKind::NegativeLog:
        add(negative_, -row);
        logarithms_.push_back(unit);
        fall_ += unit;
        break;
      case TermKind::Softplus:
      case TermKind::PseudoHuber: {  // the larger of a and 0, or of a and -a
        const Index kink = new_kink(weight);
        negative_.push_back({.d = unit, .kink = kink});
        negative_.push_back({.d = (term.phi().kind == TermKind::Softplus ? 0 : -1) * unit, .kink = kink});
        fall_ += (t > 0 ? 1 : -1) * unit;
        break;
      }
      default:
        add(zero_, row);  // grows faster than any line, or ends
    }
  }

  void add_constraints(const Instance& instance) {
    const VectorsView data = instance.vectors();
    for (Index i = 0; i < instance.matrices.p; ++i) add(zero_, instance.matrices.A_rows().col(i));
    for (Index i = 0; i < instance.matrices.m; ++i)
      if (data.h[i] < infinity) add(negative_, instance.matrices.G_rows().col(i));
    for (Index j = 0; j < n_; ++j) {
      if (data.ub.size() > 0 && data.ub[j] < infinity) add(negative_, Vector::Unit(n_, j));
      if (data.lb.size() > 0 && data.lb[j] > -infinity) add(negative_, -Vector::Unit(n_, j));
    }
  }

  Index n_, kinks_ = 0;
  Vector q_{}, fall_;              // of linear terms; the strictness
  std::vector<double> weights_{};  // of the kinks
  std::vector<Row> zero_{}, negative_{};
  std::vector<std::pair<Index, double>> bends_{};
  std::vector<Vector> logarithms_{};
};

}  // namespace

std::optional<Ray> find_ray(const std::vector<InstanceTerm>& terms, const Instance& instance,
                            const Vector& x) {
  if (x.size() == 0 || !x.allFinite()) return {};
  const Recession recession(terms, instance, x);
  Settings own;
  own.tolerance = 0.1 * nothing;
  const auto found = solve_one(recession.program(), own, {});
  if (!found.x.allFinite()) return {};
  return recession.judge(found.x);
}

}  // namespace altdiff::detail
