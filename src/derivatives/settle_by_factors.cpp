#include "derivatives/settle_by_factors.hpp"

#include <algorithm>

#include "derivatives/barrier_weights.hpp"
#include "derivatives/least_nonnegative.hpp"
#include "linalg/at.hpp"
#include "linalg/norms.hpp"

namespace altdiff::detail {

namespace {

constexpr double balanced = 1e-10;  // of the gradient, relative

using Program = QuadraticProgram<SparseMatrix>;

/// Multipliers of the rows that touch x, as one vector: of A, of rows of G, of bounds, each with its side.
class Touching {
 public:
  Touching(const Program& qp, const ActiveSet& rows, const RowLengths& lengths)
      : p_(qp.p()), normals_(qp.n(), 0) {
    for (Index i = 0; i < rows.z.size(); ++i)
      if (rows.z[i] != 0) G_.push_back(i);
    for (Index j = 0; j < rows.box.size(); ++j)
      if (rows.box[j] != 0) bounds_.push_back(j);
    const Index count = p_ + std::ssize(G_) + std::ssize(bounds_);
    normals_ = DenseMatrix::Zero(qp.n(), count);
    units_.resize(count);
    free_.resize(at(count));
    units_ << lengths.y, lengths.z(G_), rows.box(bounds_).cwiseProduct(lengths.box(bounds_));
    normals_.leftCols(p_) = DenseMatrix(qp.A).transpose();
    const DenseMatrix G(qp.G);
    normals_.middleCols(p_, std::ssize(G_)) = G(G_, Eigen::all).transpose();
    for (Index k = 0; k < count; ++k) {
      const Index bound = k - p_ - std::ssize(G_);
      if (bound >= 0) normals_(bounds_[at(bound)], k) = 1;
      free_[at(k)] = k < p_ || (bound >= 0 && qp.lb[bounds_[at(bound)]] == qp.ub[bounds_[at(bound)]]);
    }
    normals_ *= units_.cwiseInverse().asDiagonal();
  }

  /// (W3); only x of `v` is read, and kept.
  [[nodiscard]] std::optional<Point> least(const Program& qp, const Point& v) const {
    const Vector gradient = qp.P * v.x + qp.q;
    const auto lambda = least_nonnegative(normals_, gradient, free_, balanced * sizes_at(qp, v).gradient);
    if (!lambda) return {};
    const Vector multipliers = lambda->cwiseQuotient(units_);
    Point found{.x = v.x, .y = multipliers.head(p_), .z = Vector::Zero(qp.m()), .z_box = Vector::Zero(qp.n())};
    found.z(G_) = multipliers.segment(p_, std::ssize(G_));
    found.z_box(bounds_) = multipliers.tail(std::ssize(bounds_));
    return found;
  }

 private:
  Index p_;
  std::vector<Index> G_{}, bounds_{};
  Vector units_{};       // lengths of rows, negative at lb
  DenseMatrix normals_;  // one column a row, of length one in the user's units
  std::vector<bool> free_{};
};

/// The least multipliers, with x and them corrected on the rows where they are positive. Empty if that leads away
/// from the solution.
std::optional<Point> with_least_multipliers(const Program& qp, const RowLengths& lengths, const Point& v,
                                            const ActiveSet& rows) {
  // Where rows are dependent, an engine's multipliers may be as large as they like.
  const Point x_alone{.x = v.x,
                      .y = Vector::Zero(qp.p()),
                      .z = Vector::Zero(qp.m()),
                      .z_box = Vector::Zero(qp.n())};
  const double zero = zero_multiplier(qp, x_alone);
  auto least = Touching(qp, rows, lengths).least(qp, x_alone);
  if (!least) return {};
  ActiveSet S = strictly_active(qp, *least, rows, zero);
  NullSpace(qp, S, lengths).polish(qp, *least);
  orient_fixed(qp, *least, S);
  return mend(qp, *least, S) > 0 ? std::nullopt : least;
}

}  // namespace

void settle_by_factors(const ScaledProgram<SparseMatrix>& program, Point& v, ActiveSet& S) {
  const auto& qp = program.qp;
  const RowLengths lengths(program);
  ActiveSet rows = touching(qp, v, S);
  if (auto least = with_least_multipliers(qp, lengths, v, rows)) v = std::move(*least);
  rows = touching(qp, v, rows);  // an engine's multipliers may have spoken for rows that do not
  S = strictly_active(qp, v, rows, zero_multiplier(qp, v));
  orient_fixed(qp, v, S);
  const ActiveSet W{.z = rows.z - S.z, .box = (S.box.array() == 0).select(rows.box, 0.0)};
  add_barrier_weights(qp, lengths, W, S);
}

}  // namespace altdiff::detail
