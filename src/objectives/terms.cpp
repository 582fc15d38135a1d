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
constexpr double within_reach = 20;       // e^t with such a t is no large number
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
      offset_(part(term.offset, instance, term.rows)) {
  hold_constant_rows();
}

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

/// A row of zeros is a number: it limits nothing, and has no slope, even where it is at the end of the
/// domain. One outside of it is left as it is: f has no value anywhere.
void InstanceTerm::hold_constant_rows() {
  if (map_ == nullptr || !has_domain()) return;
  for (Index i = 0; i < rows_; ++i) {
    const double* row = map_ + i * n_;
    if (std::any_of(row, row + n_, [](double number) { return number != 0; })) continue;
    const double t = offset_ == nullptr ? 0 : -offset_[i];
    const bool end = t == phi_.lower() || t == phi_.upper();
    if (t < phi_.lower() || t > phi_.upper() || (end && !phi_.closed())) continue;
    held_.resize(static_cast<std::size_t>(rows_));
    held_[static_cast<std::size_t>(i)] = 1;
  }
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
  const bool hot = temperature_.width != 1 && kinked();
  if (hot) w.t /= temperature_.width;
  if (phi_.kind == TermKind::LogSumExp) {
    const double largest = w.t.size() > 0 ? w.t.maxCoeff() : 0;
    w.first = (w.t.array() - largest).exp();
    const double sum = w.first.sum();
    w.first *= weight(0) / sum;
    w.second = hot ? w.first / temperature_.width : w.first;
    return (hot ? temperature_.width : 1) * weight(0) * (largest + std::log(sum));
  }
  evaluate_rows(w, ends);
  if (hot) {
    w.value *= temperature_.width;
    w.second /= temperature_.width;
  }
  if (weight_ == nullptr && temperature_.barrier == 0) return w.value.sum();
  add_weights(w);
  if (temperature_.barrier > 0 && has_domain()) add_barrier(w);
  return w.value.sum();
}

void InstanceTerm::add_weights(Workspace& w) const {
  if (weight_ == nullptr) return;
  const auto weights = Numbers(weight_, rows_).array();
  if ((weights == 0).any()) {  // wherever t is, also outside the domain
    w.value = (weights == 0).select(0.0, w.value);
    w.first = (weights == 0).select(0.0, w.first);
    w.second = (weights == 0).select(0.0, w.second);
  }
  w.value *= weights;
  w.first *= weights;
  w.second *= weights;
}

void InstanceTerm::add_barrier(Workspace& w) const {
  const auto add_end = [&](Index i, double distance, double sign) {
    w.value[i] -= temperature_.barrier * std::log(distance);
    w.first[i] -= sign * temperature_.barrier / distance;
    w.second[i] += temperature_.barrier / (distance * distance);
  };
  for (Index i = 0; i < rows_; ++i) {
    if (!limited(i)) continue;
    if (std::isfinite(phi_.lower())) add_end(i, w.t[i] - phi_.lower(), 1);
    if (std::isfinite(phi_.upper())) add_end(i, phi_.upper() - w.t[i], -1);
  }
}

bool InstanceTerm::kinked() const {
  return phi_.kind == TermKind::LogSumExp || phi_.kind == TermKind::Softplus ||
         phi_.kind == TermKind::PseudoHuber;
}

double InstanceTerm::steepest() const {
  if (!kinked()) return 0;
  double slope = 0;
  for (Index i = 0; i < rows_; ++i)
    slope = std::max(slope, weight(phi_.kind == TermKind::LogSumExp ? 0 : i) * row(i).cwiseAbs().maxCoeff());
  return slope;
}

Temperature InstanceTerm::hottest(const View& x, double gradient) const {
  Temperature found;
  Vector t;
  set_t(x.data(), t);
  if (has_domain()) {
    for (Index i = 0; i < rows_; ++i) {
      if (!limited(i)) continue;
      const double distance = std::min({1.0, t[i] - phi_.lower(), phi_.upper() - t[i]});
      found.barrier = std::max(found.barrier, gradient * distance / row(i).cwiseAbs().maxCoeff());
    }
  } else if (kinked() && rows_ > 0) {
    const double apart =
        phi_.kind == TermKind::LogSumExp ? t.maxCoeff() - t.minCoeff() : t.cwiseAbs().maxCoeff();
    found.width = std::max(1.0, apart);
  }
  return found;
}

void InstanceTerm::evaluate_rows(Workspace& w, Ends ends) const {
  if (known_ != nullptr) {
    w.value = known_->value;
    w.first = known_->first;
    w.second = known_->second;
    return;
  }
  phi_.evaluate(w.t.array(), w.value, w.first, w.second);
  if (!has_domain() || (held_.empty() && (ends == Ends::Held || !phi_.closed()))) return;
  for (Index i = 0; i < rows_; ++i) {
    const bool at_end = phi_.closed() && (w.t[i] == phi_.lower() || w.t[i] == phi_.upper());
    if (at_end && (ends == Ends::All || held(i)))
      w.first[i] = w.t[i] == phi_.lower() ? -Phi::end_slope : Phi::end_slope;
    else if (map_ == nullptr || !held(i))
      continue;
    w.second[i] = 0;  // of a row of zeros it may be larger than any number, and nothing is multiplied by it
  }
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

/// M' diag(second) M. That of a log-sum-exp is M'(diag(s) - s s'/w) M, the covariance of the rows of M under
/// the weights s: written as the difference, rounding of the size of s would hide what is left of it where
/// one row has nearly all the weight. Rows are taken relative to that one, and centred.
void InstanceTerm::add_hessian(double* hessian, Workspace& w) const {
  Eigen::Map<DenseMatrix> H(hessian, n_, n_);
  const bool centred = phi_.kind == TermKind::LogSumExp;
  if (centred && (weight(0) == 0 || rows_ == 0)) return;
  if (map_ == nullptr && centred) {
    add_softmax_hessian(H, w);
  } else if (map_ == nullptr) {
    H.diagonal() += w.second.matrix();
  } else if (rows_ > 0) {
    const Index stride = padded(n_);
    w.scaled.resize(stride, rows_);
    w.product.resize(stride, n_ + 1);  // the last column is only room
    w.value = w.second.sqrt();
    if (centred) {
      scale_centred_rows(w);
    } else {
      for (Index i = 0; i < rows_; ++i) {
        const double root = w.value[i];
        const double* row = map_ + i * n_;
        double* target = w.scaled.data() + i * stride;
        for (Index j = 0; j < n_; ++j) target[j] = root * row[j];
        clear_padding(target + n_);
      }
    }
    gram(1, w.scaled.topRows(n_), 0, w.product.topRows(n_).leftCols(n_), 1);
    symmetrise(w.product.topRows(n_).leftCols(n_));
    H += w.product.topRows(n_).leftCols(n_);
  }
}

/// The columns of `scaled` become sqrt(s_i) (m_i - mean), m_i the rows of M.
void InstanceTerm::scale_centred_rows(Workspace& w) const {
  const Index top = w.heaviest();
  const double* heaviest = map_ + top * n_;
  w.wide.setZero(n_);  // the mean, relative to the heaviest row
  for (Index i = 0; i < rows_; ++i) {
    const double share = w.first[i] / weight(0);
    const double* row = map_ + i * n_;
    for (Index j = 0; j < n_; ++j) w.wide[j] += share * (row[j] - heaviest[j]);
  }
  for (Index i = 0; i < rows_; ++i) {
    const double root = w.value[i];
    const double* row = map_ + i * n_;
    double* target = w.scaled.data() + i * w.scaled.rows();
    for (Index j = 0; j < n_; ++j) target[j] = root * ((row[j] - heaviest[j]) - w.wide[j]);
    clear_padding(target + n_);
  }
}

/// diag(s) - s s'/w. The diagonal is s_i (w - s_i) / w, where w - s_i is the sum of the others.
void InstanceTerm::add_softmax_hessian(Eigen::Map<DenseMatrix>& H, const Workspace& w) const {
  const Index top = w.heaviest();
  const double largest = w.first[top];
  double others = 0;
  for (Index i = 0; i < rows_; ++i) others += i == top ? 0 : w.first[i];
  const double corner = H(top, top) + largest * (others / weight(0));
  H.diagonal() += w.first.matrix();
  H.noalias() -= w.first.matrix() * (w.first.matrix() / weight(0)).transpose();
  H(top, top) = corner;
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

bool InstanceTerm::hidden_by_rounding(const View& x, double roundings) const {
  const bool exact_at_zero = map_ == nullptr && offset_ == nullptr;
  if (!has_domain() || (exact_at_zero && !std::isfinite(phi_.upper()))) return false;
  for (Index i = 0; i < rows_; ++i) {
    if (!limited(i)) continue;
    const double offset = offset_ == nullptr ? 0 : offset_[i];
    const double product = map_ == nullptr ? x[i] : M().col(i).dot(x);
    const double size = map_ == nullptr ? std::abs(x[i]) : M().col(i).cwiseAbs().dot(x.cwiseAbs());
    const double rounding = roundings * one_rounding * (size + std::abs(offset));
    const double t = product - offset;
    if ((!exact_at_zero && t - phi_.lower() < rounding) || phi_.upper() - t < rounding) return true;
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

Index InstanceTerm::add_reach(Index first, DenseMatrix& G, Vector& h) const {
  for (Index i = 0; i < reach_rows(); ++i, ++first) {
    if (!present(i)) continue;  // a row of zeros
    G.row(first).head(n_) = row(i).transpose();
    G(first, n_ + 1) = -1;
    h[first] = within_reach + (offset_ == nullptr ? 0 : offset_[i]);
  }
  return first;
}

}  // namespace altdiff::detail
