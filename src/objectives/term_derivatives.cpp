#include <cmath>
#include <limits>

#include "linalg/dense.hpp"
#include "objectives/terms.hpp"

// The derivatives of a term by its own numbers.

namespace altdiff::detail {

namespace {

using Numbers = Eigen::Map<const Vector>;
using Sum = Eigen::Map<Vector>;

}  // namespace

/// phi and phi' at w.t, for derivatives by the weights. Outside the domain, where only a row without a weight
/// may be, there are none, and zero stands for them.
InstanceTerm::Workspace InstanceTerm::without_weights(const Workspace& w) const {
  Workspace plain{.t = w.t};
  evaluate_rows(plain, Ends::All);
  for (Eigen::ArrayXd* numbers : {&plain.value, &plain.first})
    *numbers = numbers->isFinite().select(*numbers, 0.0);
  return plain;
}

/// phi'' v. At the end of a domain phi'' may be too large for a number: what does not move has no part in it.
Vector InstanceTerm::bent(const Workspace& w, const Vector& v) {
  const Eigen::ArrayXd second = w.second.min(std::numeric_limits<double>::max());
  return (v.array() == 0).select(0.0, second * v.array());
}

/// v less its mean under the weights s of a log-sum-exp; relative to the heaviest row, as in its Hessian.
Vector InstanceTerm::centred(const Workspace& w, const Vector& v) const {
  if (rows_ == 0 || weight(0) == 0) return Vector::Zero(rows_);
  const Index top = w.heaviest();
  const Vector relative = v.array() - v[top];
  return relative.array() - w.first.matrix().dot(relative) / weight(0);
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
  Vector change = bent(w, dt);
  if (phi_.kind == TermKind::LogSumExp) {
    change = w.first * centred(w, dt).array();
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
  Vector by_t = bent(w, a) + objective_bar * w.first.matrix();
  if (phi_.kind == TermKind::LogSumExp) {
    by_t = (w.first * (centred(w, a).array() + objective_bar)).matrix();
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

/// D M u of H = M'D M.
Vector InstanceTerm::bent_rows(const double* x, const double* u, Workspace& w) const {
  Vector a;
  set_direction(u, a);
  (void)differentiate(x, w, Ends::All);
  if (phi_.kind == TermKind::LogSumExp) return (w.first * centred(w, a).array()).matrix();
  return bent(w, a);
}

void InstanceTerm::add_turned(const double* x, const double* u, const InstanceTerm& dot, double* gradient,
                              Workspace& w) const {
  Sum g(gradient, n_);
  if (quadratic() && dot.P_ != nullptr) {
    const Rows P(dot.P_, n_, n_);
    g += 0.5 * (P * Numbers(u, n_));
    g += 0.5 * (P.transpose() * Numbers(u, n_));
  } else if (!quadratic() && dot.map_ != nullptr) {
    g += dot.M() * bent_rows(x, u, w);
  }  // (N18)
}

void InstanceTerm::pull_back_turned(const double* x, const double* flat, const double* u,
                                    const TermGradient& target, Workspace& w) const {
  const Numbers f(flat, n_);
  if (quadratic() && target.P != nullptr) {
    const Vector half = 0.5 * f;
    Eigen::Map<DenseMatrix> P(target.P, n_, n_);
    P.noalias() += half * Numbers(u, n_).transpose();
    P.noalias() += Numbers(u, n_) * half.transpose();
  } else if (!quadratic() && target.map != nullptr) {
    Eigen::Map<DenseMatrix>(target.map, n_, rows_).noalias() += f * bent_rows(x, u, w).transpose();
  }  // (N18)
}

}  // namespace altdiff::detail
