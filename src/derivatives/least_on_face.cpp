#include "derivatives/least_on_face.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "derivatives/on_set.hpp"
#include "linalg/norms.hpp"
#include "problem/certificates.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

using Program = QuadraticProgram<SparseMatrix>;

constexpr int max_set_changes = 12;
constexpr int max_idle = 2;             // changes of the set without fewer wrong signs
constexpr double contradictory = 0.1;   // error on rows that are not active together
constexpr double no_curvature = 1e-13;  // of a row of P, relative to the largest: rounding
constexpr double held_tol = 1e-9;       // of a multiplier, relative to the largest
constexpr double violated_tol = 1e-12;  // relative to x and to the limit
constexpr double met = 1e-15;           // by rows, relative to x
constexpr int max_rounds = 6;
constexpr RoundWeights weights{.sigma = 1, .row = 1e10, .hold = true};  // sigma is all of P = I

/// P x from the gradient, where x is so large that its own product has fewer digits.
Vector curved_part(const Program& qp, const Point& v) {
  const Vector Aty = qp.A.transpose() * v.y;
  const Vector Gtz = qp.G.transpose() * v.z;
  const double size = std::max({norm(qp.q), norm(Aty), norm(Gtz), norm(v.z_box)});
  if (largest_number(qp.P) * norm(v.x) <= size) return qp.P * v.x;
  return -(qp.q + Aty + Gtz + v.z_box);
}

/// The rows that x is on besides those of the face: all that have a wrong sign change at once.
class AddedRows {
 public:
  AddedRows(const Face& face, LeastOnRows& rows) : qp_(face.qp), S_(face.rows), T_(face.rows), rows_(rows) {}

  [[nodiscard]] bool find() {
    const Vector origin = Vector::Zero(qp_.n());
    int fewest = std::numeric_limits<int>::max();
    for (int change = 0, idle = 0; change <= max_set_changes && idle <= max_idle; ++change) {
      if (!rows_.use(T_)) return false;
      t_ = rows_.nearest(origin);
      const double error = rows_.error(t_, origin);
      if (!(error <= contradictory)) return false;
      const int changes = mend();
      if (changes == 0) return std::max(error, rows_.error_of_known()) <= exact_on_face;
      idle = changes < fewest ? 0 : idle + 1;
      fewest = std::min(fewest, changes);
    }
    return false;
  }

  [[nodiscard]] Vector x() const { return t_.x; }

  /// `set` with those that push.
  [[nodiscard]] ActiveSet with_added(ActiveSet set) const {
    const double zero = held_tol * largest();
    for (Index i = 0; i < qp_.m(); ++i)
      if (S_.z[i] == 0 && t_.z(i, 0) > zero) set.z[i] = 1;
    for (Index j = 0; j < qp_.n(); ++j)
      if (S_.box[j] == 0 && T_.box[j] * t_.z_box(j, 0) > zero) set.box[j] = T_.box[j];
    return set;
  }

 private:
  /// The largest multiplier.
  [[nodiscard]] double largest() const {
    const Vector z = (S_.z.array() == 0).select(t_.z, Vector::Zero(qp_.m()));
    const Vector z_box = (S_.box.array() == 0).select(t_.z_box, Vector::Zero(qp_.n()));
    return std::max(norm(z), norm(z_box));
  }

  /// Those that pull leave T, those that x violates enter. Returns how many.
  int mend() {
    const Vector x = t_.x;
    const Vector Gx = qp_.G * x;
    const double size = norm(x);
    const double zero = held_tol * largest();
    const auto beyond = [&](double value, double limit) {
      return std::isfinite(limit) && value - limit > violated_tol * (size + std::abs(limit));
    };
    int changes = 0;
    const auto set = [&](double& member, double value) {
      changes += member != value ? 1 : 0;
      member = value;
    };
    for (Index i = 0; i < qp_.m(); ++i) {
      if (S_.z[i] != 0) continue;
      const bool stays = T_.z[i] != 0 && t_.z(i, 0) >= -zero;
      set(T_.z[i], stays || (T_.z[i] == 0 && beyond(Gx[i], qp_.h[i])) ? 1 : 0);
    }
    for (Index j = 0; j < qp_.n(); ++j) {
      if (S_.box[j] != 0) continue;
      if (T_.box[j] != 0)
        set(T_.box[j], T_.box[j] * t_.z_box(j, 0) >= -zero ? T_.box[j] : 0);
      else if (beyond(x[j], qp_.ub[j]))
        set(T_.box[j], 1);
      else if (beyond(-x[j], -qp_.lb[j]))
        set(T_.box[j], -1);
    }
    return changes;
  }

  const Program& qp_;
  const ActiveSet& S_;
  ActiveSet T_;
  LeastOnRows& rows_;
  PointBlock t_{};
};

}  // namespace

Face::Face(const Program& program, const Finished<SparseMatrix>& found)
    : qp(program), rows{.z = found.set.z, .box = found.set.box}, pattern(program.n(), program.n()) {
  const Vector sizes = row_norms(program.P);
  const double nothing = no_curvature * norm(sizes);
  std::vector<Index> curved;
  for (Index j = 0; j < qp.n(); ++j)
    if (sizes[j] > nothing) curved.push_back(j);
  qp.P.setIdentity();
  qp.q.setZero();
  if (definite_where_curved(program.P)) {
    for (const Index j : curved) {
      if (rows.box[j] != 0) continue;
      rows.box[j] = 1;
      qp.lb[j] = qp.ub[j] = found.point.x[j];
    }
    const bool crowded = program.P.nonZeros() > qp.A.nonZeros() + qp.G.nonZeros();
    if (!crowded) pattern = 0 * program.P;
    return;
  }
  const Vector scale = sizes(curved).cwiseInverse();
  qp.A = stacked({program.A, scale.asDiagonal() * pick_rows(program.P, curved)});
  qp.b.resize(qp.A.rows());
  qp.b << program.b, scale.cwiseProduct(Vector(curved_part(program, found.point)(curved)));
}

LeastOnRows::LeastOnRows(const Face& face)
    : face_(face), T_(face.rows), system_(face.pattern, face.qp.A, face.qp.G) {}

bool LeastOnRows::use(const ActiveSet& T) {
  T_ = T;
  return system_.factorise(face_.pattern, face_.qp.A, face_.qp.G,
                           penalties_on<SparseMatrix>(T_, face_.qp.p(), weights));
}

/// P = I leaves no error in the gradient: rows are what further rounds are for.
PointBlock LeastOnRows::solve(const PointBlock& right_side) const {
  PointBlock t;
  bool done = false;
  fixed_rounds(face_.qp, system_, T_, right_side, t, {.rounds = max_rounds}, [&](const PointBlock& left) {
    return !std::exchange(done, std::max(norm(left.y), norm(left.z)) <= met * norm(t.x));
  });
  return t;
}

PointBlock LeastOnRows::nearest(const Vector& v) const {
  PointBlock right_side = data_of(face_.qp, T_);
  right_side.x = -v;
  return solve(right_side);
}

double LeastOnRows::error(const PointBlock& t, const Vector& v) const {
  const PointBlock met_by = right_side_of(face_.qp, T_, t);
  const PointBlock wanted = data_of(face_.qp, T_);
  const Vector rows = (met_by.z - wanted.z).cwiseProduct(T_.z);
  const double largest = std::max({norm(met_by.x + v), norm(met_by.y - wanted.y), norm(rows)});
  return largest == 0 ? 0 : largest / norm(t.x);
}

double LeastOnRows::error_of_known() const {
  const DenseMatrix known = generic_block(face_.qp.n(), 1);
  return norm(solve(solvable_right_side(face_.qp, T_)).x - known);
}

DenseMatrix LeastOnRows::rough_part(const DenseMatrix& columns) const {
  PointBlock right_side = zeros(face_.qp, columns.cols());
  right_side.x = -columns;
  return solve(right_side).x;
}

std::optional<LeastOnFace> least_on_face(const Face& face, const ActiveSet& found, LeastOnRows& rows) {
  AddedRows added(face, rows);
  if (!added.find()) return {};
  return LeastOnFace{.x = added.x(), .T = added.with_added(found)};  // (L1)
}

}  // namespace altdiff::detail
