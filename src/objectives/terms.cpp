#include "objectives/terms.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/dense.hpp"
#include "linalg/small.hpp"

namespace altdiff::detail {

namespace {

using Numbers = Eigen::Map<const Vector>;
using Sum = Eigen::Map<Vector>;

constexpr double one_rounding = 1e-15;
constexpr double to_the_boundary = 0.99;  // share of the way to the end of the domain that a step may go

const double* part(const BatchField& field, Index instance, Index entries) {
  return field.data == nullptr ? nullptr : field.data + field.of(instance) * entries;
}

bool finite(const double* numbers, Index count) { return numbers == nullptr || all_finite(numbers, count); }

Index weights_of(const Term& term) { return term.kind == TermKind::LogSumExp ? 1 : term.rows; }

}  // namespace

InstanceTerm::InstanceTerm(const Term& term, Index instance, Index n)
    : phi_{.kind = term.kind, .power = term.power},
      n_(n),
      rows_(term.rows),
      P_(part(term.P, instance, n * n)),
      q_(part(term.q, instance, n)),
      weight_(part(term.weight, instance, weights_of(term))),
      map_(part(term.map, instance, term.rows * n)),
      offset_(part(term.offset, instance, term.rows)) {}

Spare<InstanceTerm::Workspace> InstanceTerm::workspace(Index rows) {
  return spare<Workspace>([rows](const Workspace& w) { return w.t.size() == rows; });
}

bool InstanceTerm::valid() const {
  const Index weights = phi_.kind == TermKind::LogSumExp ? 1 : rows_;
  const bool numbers = finite(P_, n_ * n_) && finite(q_, n_) && finite(weight_, weights) &&
                       finite(map_, rows_ * n_) && finite(offset_, rows_);
  return numbers &&
         (weight_ == nullptr || std::all_of(weight_, weight_ + weights, [](double w) { return w >= 0; }));
}

bool InstanceTerm::diagonal() const {
  return quadratic() ? P_ == nullptr : map_ == nullptr && phi_.kind != TermKind::LogSumExp;
}

void InstanceTerm::hold_ends(const View& lb, const View& ub) {
  if (map_ != nullptr || !phi_.closed() || lb.size() == 0 || ub.size() == 0) return;
  for (Index j = 0; j < n_; ++j) {
    const double t = ub[j] - (offset_ == nullptr ? 0 : offset_[j]);
    if (lb[j] != ub[j] || (t != phi_.lower() && t != phi_.upper())) continue;
    held_.resize(static_cast<std::size_t>(n_));
    held_[static_cast<std::size_t>(j)] = 1;
  }
}

void InstanceTerm::set_direction(const double* d, Vector& a) const {
  a.resize(rows_);
  if (map_ == nullptr) {
    a = Numbers(d, n_);
  } else {
    multiply(Op::Transpose, Op::None, 1, M(), Numbers(d, n_), 0, a);
  }
}

void InstanceTerm::set_t(const double* x, Vector& t) const {
  set_direction(x, t);
  if (offset_ != nullptr) t -= Numbers(offset_, rows_);
}

/// Of a log-sum-exp, `first` becomes w softmax(t), and `second` the same.
double InstanceTerm::differentiate(const double* x, Workspace& w, Ends ends) const {
  set_t(x, w.t);
  if (phi_.kind == TermKind::LogSumExp) {
    const double largest = w.t.size() > 0 ? w.t.maxCoeff() : 0;
    w.first = (w.t.array() - largest).exp();
    const double sum = w.first.sum();
    w.first *= weight(0) / sum;
    w.second = w.first;
    return weight(0) * (largest + std::log(sum));
  }
  evaluate_rows(w, ends);
  if (weight_ == nullptr) return w.value.sum();
  const auto weights = Numbers(weight_, rows_).array();
  if ((weights == 0).any()) {  // wherever t is, also outside the domain
    w.value = (weights == 0).select(0.0, w.value);
    w.first = (weights == 0).select(0.0, w.first);
    w.second = (weights == 0).select(0.0, w.second);
  }
  w.first *= weights;
  w.second *= weights;
  return (weights * w.value).sum();
}

void InstanceTerm::evaluate_rows(Workspace& w, Ends ends) const {
  if (known_ != nullptr) {
    w.value = known_->value;
    w.first = known_->first;
    w.second = known_->second;
    return;
  }
  phi_.evaluate(w.t.array(), w.value, w.first, w.second);
  if (!phi_.closed() || (ends == Ends::Held && held_.empty())) return;
  for (Index i = 0; i < rows_; ++i) {
    const bool at_end = w.t[i] == phi_.lower() || w.t[i] == phi_.upper();
    if (!at_end || (ends == Ends::Held && !held(i))) continue;
    w.first[i] = w.t[i] == phi_.lower() ? -Phi::end_slope : Phi::end_slope;
    w.second[i] = 0;
  }
}

/// phi and phi' at w.t, for derivatives by the weights. Outside the domain, where only a row without a weight
/// may be, there are none, and zero stands for them.
InstanceTerm::Workspace InstanceTerm::without_weights(const Workspace& w) const {
  Workspace plain{.t = w.t};
  evaluate_rows(plain, Ends::All);
  for (Eigen::ArrayXd* numbers : {&plain.value, &plain.first})
    *numbers = numbers->isFinite().select(*numbers, 0.0);
  return plain;
}

double InstanceTerm::add(const double* x, double* gradient, double* hessian, Workspace& w) const {
  if (quadratic()) return add_quadratic(x, gradient, hessian, w);
  const double value = differentiate(x, w, Ends::Held);
  Sum g(gradient, n_);
  if (map_ == nullptr) {
    g += w.first.matrix();
  } else {
    multiply(Op::None, Op::None, 1, M(), w.first.matrix(), 1, g);
  }
  if (hessian != nullptr) add_hessian(hessian, w);
  return value;
}

void InstanceTerm::add_summands(const View& x, Vector& sizes) const {
  if (q_ != nullptr) sizes += Numbers(q_, n_).cwiseAbs();
  if (P_ != nullptr) sizes += Rows(P_, n_, n_).cwiseAbs() * x.cwiseAbs();
  if (quadratic()) return;
  Workspace w;
  (void)differentiate(x.data(), w, Ends::Held);
  if (map_ == nullptr)
    sizes += w.first.abs().matrix();
  else
    sizes += M().cwiseAbs() * w.first.abs().matrix();
}

/// M' diag(second) M; of a log-sum-exp also -s s' / w, s = M'first.
void InstanceTerm::add_hessian(double* hessian, Workspace& w) const {
  Eigen::Map<DenseMatrix> H(hessian, n_, n_);
  if (map_ == nullptr) {
    H.diagonal() += w.second.matrix();
  } else if (rows_ > 0) {
    const Index stride = padded(n_);
    w.scaled.resize(stride, rows_);
    w.product.resize(stride, n_ + 1);  // the last column is only room
    w.wide = w.second.sqrt();
    for (Index i = 0; i < rows_; ++i) {
      const double root = w.wide[i];
      const double* row = map_ + i * n_;
      double* target = w.scaled.data() + i * stride;
      for (Index j = 0; j < n_; ++j) target[j] = root * row[j];
      clear_padding(target + n_);
    }
    gram(1, w.scaled.topRows(n_), 0, w.product.topRows(n_).leftCols(n_), 1);
    symmetrise(w.product.topRows(n_).leftCols(n_));
    H += w.product.topRows(n_).leftCols(n_);
  }
  if (phi_.kind != TermKind::LogSumExp || weight(0) == 0) return;
  w.wide.setZero(n_);
  if (map_ == nullptr) {
    w.wide = w.first.matrix();
  } else {
    multiply(Op::None, Op::None, 1, M(), w.first.matrix(), 0, w.wide);
  }
  H.noalias() -= w.wide * (w.wide / weight(0)).transpose();
}

double InstanceTerm::add_quadratic(const double* x, double* gradient, double* hessian, Workspace& w) const {
  const Numbers v(x, n_);
  Sum g(gradient, n_);
  double value = 0;
  if (P_ != nullptr) {
    const Rows P(P_, n_, n_);
    w.wide.setZero(n_);
    multiply(Op::None, Op::None, 0.5, P, v, 0, w.wide);  // only the symmetric part counts
    multiply(Op::Transpose, Op::None, 0.5, P, v, 1, w.wide);
    value = 0.5 * v.dot(w.wide);
    g += w.wide;
    if (hessian != nullptr) {
      Eigen::Map<DenseMatrix> H(hessian, n_, n_);
      H += 0.5 * P;
      H += 0.5 * P.transpose();
    }
  }
  if (q_ != nullptr) {
    value += Numbers(q_, n_).dot(v);
    g += Numbers(q_, n_);
  }
  return value;
}

double InstanceTerm::largest_step(const View& x, const View& d, double longest, Workspace& w) const {
  const double lower = phi_.lower();
  const double upper = phi_.upper();
  if (quadratic() || (!std::isfinite(lower) && !std::isfinite(upper))) return longest;
  set_t(x.data(), w.t);
  set_direction(d.data(), w.wide);
  for (Index i = 0; i < rows_; ++i) {
    if (!limited(i)) continue;
    const double change = longest * w.wide[i];
    if (w.t[i] + change < lower + (1 - to_the_boundary) * (w.t[i] - lower))
      longest = to_the_boundary * (lower - w.t[i]) / w.wide[i];
    else if (w.t[i] + change > upper - (1 - to_the_boundary) * (upper - w.t[i]))
      longest = to_the_boundary * (upper - w.t[i]) / w.wide[i];
  }
  return longest;
}

bool InstanceTerm::hidden_by_rounding(const View& x) const {
  if (map_ == nullptr || domain_rows() == 0) return false;
  for (Index i = 0; i < rows_; ++i) {
    if (!limited(i)) continue;
    const auto row = M().col(i);
    const double offset = offset_ == nullptr ? 0 : offset_[i];
    const double t = row.dot(x) - offset;
    const double rounding = one_rounding * (row.cwiseAbs().dot(x.cwiseAbs()) + std::abs(offset));
    if (t - phi_.lower() < rounding || phi_.upper() - t < rounding) return true;
  }
  return false;
}

Index InstanceTerm::domain_rows() const {
  if (quadratic()) return 0;
  const Index ends = (std::isfinite(phi_.lower()) ? 1 : 0) + (std::isfinite(phi_.upper()) ? 1 : 0);
  Index count = 0;
  for (Index i = 0; ends > 0 && i < rows_; ++i) count += limited(i) ? ends : 0;
  return count;
}

Index InstanceTerm::add_domain(Index first, DenseMatrix& G, Vector& h) const {
  const auto add_rows = [&](double sign, double end) {  // sign t >= sign end + delta
    for (Index i = 0; i < rows_; ++i) {
      if (!limited(i)) continue;
      if (map_ == nullptr)
        G(first, i) = -sign;
      else
        G.row(first).head(n_) = -sign * M().col(i).transpose();
      G(first, n_) = 1;
      h[first] = -sign * (end + (offset_ == nullptr ? 0 : offset_[i]));
      ++first;
    }
  };
  if (quadratic()) return first;
  if (std::isfinite(phi_.lower())) add_rows(1, phi_.lower());
  if (std::isfinite(phi_.upper())) add_rows(-1, phi_.upper());
  return first;
}

void InstanceTerm::add_quadratic_cross(const double* x, const InstanceTerm& dot, double* gradient) const {
  Sum g(gradient, n_);
  if (dot.P_ != nullptr) {
    const Rows P(dot.P_, n_, n_);
    g += 0.5 * (P * Numbers(x, n_));
    g += 0.5 * (P.transpose() * Numbers(x, n_));
  }
  if (dot.q_ != nullptr) g += Numbers(dot.q_, n_);
}

/// grad f = M'(w phi'(t)); of a log-sum-exp M'(w softmax(t)).                                          (N6)
void InstanceTerm::add_cross(const double* x, const InstanceTerm& dot, double* gradient, Workspace& w) const {
  if (quadratic()) {
    add_quadratic_cross(x, dot, gradient);
    return;
  }
  (void)differentiate(x, w, Ends::All);
  Vector dt = Vector::Zero(rows_);
  if (dot.map_ != nullptr) dt = dot.M().transpose() * Numbers(x, n_);
  if (dot.offset_ != nullptr) dt -= Numbers(dot.offset_, rows_);
  Vector change = w.second.matrix().cwiseProduct(dt);
  if (phi_.kind == TermKind::LogSumExp) {
    const double size = weight(0);
    if (size > 0) change -= w.first.matrix() * (w.first.matrix().dot(dt) / size);
    if (dot.weight_ != nullptr) {
      const double largest = w.t.maxCoeff();
      const Eigen::ArrayXd e = (w.t.array() - largest).exp();
      change += (e * (dot.weight_[0] / e.sum())).matrix();
    }
  } else if (dot.weight_ != nullptr) {
    change += (without_weights(w).first * Numbers(dot.weight_, rows_).array()).matrix();
  }
  Sum g(gradient, n_);
  if (map_ == nullptr) {
    g += change;
  } else {
    g += M() * change;
  }
  if (dot.map_ != nullptr) g += dot.M() * w.first.matrix();
}

void InstanceTerm::pull_back_quadratic(const double* x, const double* u, double objective_bar,
                                       const TermGradient& target) const {
  const Numbers v(x, n_);
  if (target.P != nullptr) {
    const Vector half = 0.5 * (Numbers(u, n_) + 0.5 * objective_bar * v);
    Eigen::Map<DenseMatrix> P(target.P, n_, n_);
    P.noalias() += half * v.transpose();
    P.noalias() += v * half.transpose();
  }
  if (target.q != nullptr) Eigen::Map<Vector>(target.q, n_) += Numbers(u, n_) + objective_bar * v;
}

/// With a = M u: u'grad f = sum_i a_i w_i phi'(t_i), differentiated by w, by t = M x - o, and by M in a. (N6)
void InstanceTerm::pull_back(const double* x, const double* u, double objective_bar,
                             const TermGradient& target, Workspace& w) const {
  if (quadratic()) {
    pull_back_quadratic(x, u, objective_bar, target);
    return;
  }
  Vector a;
  set_direction(u, a);
  (void)differentiate(x, w, Ends::All);
  Vector by_t = (w.second * a.array() + objective_bar * w.first).matrix();
  if (phi_.kind == TermKind::LogSumExp) {
    const double size = weight(0);
    const double mean = size > 0 ? w.first.matrix().dot(a) / size : 0;
    by_t -= mean * w.first.matrix();
    if (target.weight != nullptr) {
      const Eigen::ArrayXd e = (w.t.array() - w.t.maxCoeff()).exp();
      *target.weight +=
          (e * a.array()).sum() / e.sum() + objective_bar * (w.t.maxCoeff() + std::log(e.sum()));
    }
  } else if (target.weight != nullptr) {
    const Workspace plain = without_weights(w);
    Eigen::Map<Vector>(target.weight, rows_) +=
        (a.array() * plain.first + objective_bar * plain.value).matrix();
  }
  if (target.offset != nullptr) Eigen::Map<Vector>(target.offset, rows_) -= by_t;
  if (target.map != nullptr) {
    Eigen::Map<DenseMatrix> M_bar(target.map, n_, rows_);
    M_bar.noalias() += Numbers(x, n_) * by_t.transpose();
    M_bar.noalias() += Numbers(u, n_) * w.first.matrix().transpose();
  }
}

}  // namespace altdiff::detail
