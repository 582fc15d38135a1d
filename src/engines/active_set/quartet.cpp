#include "engines/active_set/quartet.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engines/active_set/primal_dual.hpp"
#include "problem/rows.hpp"

namespace altdiff::detail {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_much_less = 0.5;
constexpr int patience = 6;  // changes without fewer wrong signs
constexpr Lanes one{1, 1, 1, 1};

/// Hands out a block of memory piece by piece.
struct Pieces {
  Lanes* next;
  Lanes* take(Index count) { return std::exchange(next, next + count); }
};

Lanes absolute(const Lanes& v) { return v < 0 ? -v : v; }
Lanes larger(const Lanes& a, const Lanes& b) { return a > b ? a : b; }
Lanes smaller(const Lanes& a, const Lanes& b) { return a < b ? a : b; }

Lanes root(Lanes v) {
  for (Index l = 0; l < lanes; ++l) v[l] = std::sqrt(v[l]);
  return v;
}

Lanes norm2(const Lanes* v, Index count) {
  Lanes sum{};
  for (Index i = 0; i < count; ++i) sum += v[i] * v[i];
  return root(sum);
}

bool any(const LaneMask& mask) { return mask[0] != 0 || mask[1] != 0 || mask[2] != 0 || mask[3] != 0; }

template <class Part>
std::array<const double*, lanes> pointers(const std::array<Instance, lanes>& instances, const Part& part) {
  std::array<const double*, lanes> result{};
  std::ranges::transform(instances, result.begin(), part);
  return result;
}

/// One column a lane.
void scatter(const Lanes* source, DenseMatrix& target) {
  for (Index i = 0; i < target.rows(); ++i)
    for (Index l = 0; l < lanes; ++l) target(i, l) = source[i][l];
}

}  // namespace

Quartet::Quartet(Index n, Index m, Index p, const std::vector<Index>& bounded, double* memory)
    : n_(n), m_(m), p_(p), k_(m + static_cast<Index>(bounded.size())) {
  Pieces pieces{reinterpret_cast<Lanes*>(memory)};
  T_ = pieces.take((n_ + p_ + k_) * n_);
  inverse_L_ = pieces.take(n_);
  E_ = pieces.take((p_ + k_) * p_);
  inverse_E_ = pieces.take(p_);
  F_ = pieces.take(k_ * k_);
  inverse_F_ = pieces.take(k_);
  side_ = pieces.take(k_);
}

Quartet::Workspace::Workspace(Index n, Index m, Index p, Index k)
    : numbers(lanes * ((n + p + m) * n + k * k + 8 * k + 5 * n + 2 * p + m)),
      result{.point = {.x = DenseMatrix(n, lanes),
                       .y = DenseMatrix(p, lanes),
                       .z = DenseMatrix(m, lanes),
                       .z_box = DenseMatrix::Zero(n, lanes)},
             .products = Products(n, m, p, lanes)} {}

/// The search for the active sets, (AS3) in every lane.
struct Quartet::Search {
  Lanes *M, *t, *lower, *upper, *bottom, *ceiling, *lengths, *lambda, *v;
  Lanes size{};
  Lanes changes{};
  LaneMask solved{};

  Search(Pieces& pieces, Index k)
      : M(pieces.take(k * k)),
        t(pieces.take(k)),
        lower(pieces.take(k)),
        upper(pieces.take(k)),
        bottom(pieces.take(k)),
        ceiling(pieces.take(k)),
        lengths(pieces.take(k)),
        lambda(pieces.take(k)),
        v(pieces.take(k)) {}

  [[nodiscard]] Lanes limit(Index i, const Lanes& side) const { return side > 0 ? upper[i] : lower[i]; }
  /// Beyond which limit row i is on this set: +1, -1, or 0.
  [[nodiscard]] Lanes violated(Index i) const {
    return (v[i] > ceiling[i] ? one : Lanes{}) - (v[i] < bottom[i] ? one : Lanes{});
  }
  [[nodiscard]] Lanes violation(Index i, const Lanes& side) const {
    return side != 0 ? side * (v[i] - limit(i, side)) / lengths[i] : Lanes{};
  }
};

Lanes Quartet::sweep(const LaneMatrix& M, Lanes* lengths) {
  Lanes pivots = partial_cholesky(T(), inverse_L_);
  std::fill_n(E_, (p_ + k_) * p_, Lanes{});
  std::fill_n(M.data, k_ * k_, Lanes{});
  add_lower_product(1, T().middle_rows(n_, p_ + k_), Y_E(), E());
  add_lower_product(1, Y_I(), Y_I(), M);  // (AS1)
  for (Index i = 0; i < k_; ++i) lengths[i] = root(M.row(i)[i]);
  pivots = smaller(pivots, partial_cholesky(E(), inverse_E_));
  add_lower_product(-1, W(), W(), M);  // (AS2)
  for (Index i = 0; i < k_; ++i) {
    const LaneMask zeros = lengths[i] == 0;  // it holds for every x, or for none, and has no pivot
    lengths[i] = zeros ? one : lengths[i];
    pivots = smaller(pivots, zeros ? one : M.row(i)[i] / (lengths[i] * lengths[i]));
    for (Index j = 0; j < i; ++j) M.row(j)[i] = M.row(i)[j];
  }
  return pivots;
}

void Quartet::reduce(Lanes* a, Lanes* c_E, Lanes* t_I) const {
  solve_lower(L(), inverse_L_, a);
  std::fill_n(t_I, k_, Lanes{});
  add_product(1, Y_I(), a, t_I);
  for (Index i = 0; i < p_; ++i) c_E[i] = -c_E[i];
  add_product(1, Y_E(), a, c_E);
  solve_lower(E(), inverse_E_, c_E);
  add_product(-1, W(), c_E, t_I);  // (AS4)
}

void Quartet::expand(Lanes* w, Lanes* t_E, const Lanes* v_I) const {
  add_transposed_product(-1, Y_I(), v_I, w);
  add_transposed_product(-1, W(), v_I, t_E);
  solve_upper(E(), inverse_E_, t_E);
  add_transposed_product(-1, Y_E(), t_E, w);
  solve_upper(L(), inverse_L_, w);  // (AS5)
}

void Quartet::solve_kkt(Lanes* a, Lanes* c_E, Lanes* c_I) const {
  LaneArray<largest> memory;  // NOLINT(cppcoreguidelines-pro-type-member-init): reduce sets it
  Lanes* t = memory.data();
  reduce(a, c_E, t);
  for (Index i = 0; i < k_; ++i) c_I[i] = side_[i] != 0 ? t[i] - c_I[i] : Lanes{};
  solve_lower(F(), inverse_F_, c_I);
  solve_upper(F(), inverse_F_, c_I);
  expand(a, c_E, c_I);  // (AS6)
}

Lanes Quartet::solve_on_sets(const Search& s) const {
  LaneMask active{};
  for (Index i = 0; i < k_; ++i) {
    const auto own = side_[i] != 0;
    active |= own;
    for (Index j = 0; j < i; ++j) F_[i * k_ + j] = own & (side_[j] != 0) ? s.M[i * k_ + j] : Lanes{};
    F_[i * k_ + i] = own ? s.M[i * k_ + i] : one;
    inverse_F_[i] = one;
    s.lambda[i] = own ? s.t[i] - s.limit(i, side_[i]) : Lanes{};
  }
  if (!any(active)) return one;
  const Lanes pivots = partial_cholesky(F(), inverse_F_);
  solve_lower(F(), inverse_F_, s.lambda);
  solve_upper(F(), inverse_F_, s.lambda);
  return pivots;
}

/// Of rows that are violated, only those that are not much less so than the worst become active: more than
/// the tiny space has room for would otherwise.
Lanes Quartet::flip_wrong_signs(const Search& s, const LaneMask& running) const {
  Lanes multiplier{};
  Lanes worst{};
  for (Index i = 0; i < k_; ++i) {
    multiplier = larger(multiplier, absolute(s.lambda[i]) * s.lengths[i]);
    worst = larger(worst, side_[i] == 0 ? s.violation(i, s.violated(i)) : Lanes{});
  }
  const Lanes slack = -rounding * (s.size + multiplier);
  Lanes wrong{};
  for (Index i = 0; i < k_; ++i) {
    const Lanes side = side_[i];
    const LaneMask right = s.lower[i] == s.upper[i] || side * s.lambda[i] * s.lengths[i] >= slack;
    const Lanes beyond = s.violated(i);
    const Lanes entering = s.violation(i, beyond) >= not_much_less * worst ? beyond : Lanes{};
    const Lanes kept = right ? side : Lanes{};
    const Lanes next = side != 0 ? kept : entering;
    const LaneMask is_wrong = side != 0 ? ~right : beyond != 0;
    wrong += is_wrong ? one : Lanes{};
    side_[i] = running ? next : side;
  }
  return wrong;
}

void Quartet::search(Search& s) const {
  LaneMask running = one > 0;
  Lanes fewest = infinite * one;
  Lanes idle{};
  while (any(running)) {
    const Lanes pivots = solve_on_sets(s);
    running &= pivots > PrimalDual::smallest_pivot;
    std::copy_n(s.t, k_, s.v);
    add_product(-1, LaneMatrix(s.M, k_, k_), s.lambda, s.v);
    const Lanes wrong = flip_wrong_signs(s, running);
    s.solved |= running & (wrong == 0);
    running &= wrong != 0;
    s.changes += running ? one : Lanes{};
    idle = wrong < fewest ? Lanes{} : idle + one;
    fewest = smaller(fewest, wrong);
    running &= idle < patience;
  }
}

/// What a solve reads and makes of four instances, in lanes.
struct Quartet::Data {  // NOLINT(clang-analyzer-optin.performance.Padding): pieces are taken in this order
  Lanes largest_P{};
  LaneMatrix P, A, G;
  Lanes *x, *y;  // begin as -q and b
  Search search;
  Pieces rest;

  Data(Workspace& workspace, Index n, Index m, Index p, Index k)
      : Data(Pieces{reinterpret_cast<Lanes*>(workspace.numbers.data())}, n, m, p, k) {}
  Data(Pieces pieces, Index n, Index m, Index p, Index k)
      : P(pieces.take(n * n), n, n),
        A(pieces.take(p * n), p, n),
        G(pieces.take(m * n), m, n),
        x(pieces.take(n)),
        y(pieces.take(p)),
        search(pieces, k),
        rest(pieces) {}

  void read(const std::array<Instance, lanes>& instances) {
    interleave(pointers(instances, [](const Instance& i) { return i.matrices.P; }), P.rows * P.rows, P.data);
    interleave(pointers(instances, [](const Instance& i) { return i.matrices.A; }), A.rows * P.rows, A.data);
    interleave(pointers(instances, [](const Instance& i) { return i.matrices.G; }), G.rows * P.rows, G.data);
    interleave(pointers(instances, [](const Instance& i) { return i.q; }), P.rows, x);
    interleave(pointers(instances, [](const Instance& i) { return i.b; }), A.rows, y);
    for (Index i = 0; i < P.rows; ++i) {
      x[i] = -x[i];
      for (Index j = 0; j <= i; ++j) {
        const Lanes average = 0.5 * (P.row(i)[j] + P.row(j)[i]);
        P.row(i)[j] = P.row(j)[i] = average;
        largest_P = larger(largest_P, absolute(average));
      }
    }
  }

  void read_limits(const std::array<Instance, lanes>& instances, const std::vector<Index>& bounded) const {
    const auto limit = [](const double* values, Index i, double absent) {
      if (values == nullptr) return absent;
      return never_binds(values[i]) ? std::copysign(infinite, values[i]) : values[i];
    };
    for (std::size_t l = 0; l < lanes; ++l) {
      const auto lane = static_cast<Index>(l);
      for (Index i = 0; i < G.rows; ++i) {
        search.lower[i][lane] = -infinite;
        search.upper[i][lane] = limit(instances[l].h, i, infinite);
      }
      for (std::size_t b = 0; b < bounded.size(); ++b) {
        const Index row = G.rows + static_cast<Index>(b);
        search.lower[row][lane] = limit(instances[l].lb, bounded[b], -infinite);
        search.upper[row][lane] = limit(instances[l].ub, bounded[b], infinite);
      }
    }
  }
};

/// [P; A; G; I_B]
void Quartet::stack(const Data& data, const std::vector<Index>& bounded) {
  Lanes* next = std::copy_n(data.P.data, n_ * n_, T_);
  next = std::copy_n(data.A.data, p_ * n_, next);
  next = std::copy_n(data.G.data, m_ * n_, next);
  std::fill_n(next, (k_ - m_) * n_, Lanes{});
  for (const Index j : bounded) {
    next[j] = one;
    next += n_;
  }
}

void Quartet::begin(Search& s, const std::array<const std::int8_t*, lanes>& first_sets) const {
  for (Index i = 0; i < k_; ++i) {
    const Lanes slack = rounding * s.size * s.lengths[i];
    s.ceiling[i] = s.upper[i] + (slack + rounding * absolute(s.upper[i]));
    s.bottom[i] = s.lower[i] - (slack + rounding * absolute(s.lower[i]));
    Lanes side{};
    for (std::size_t l = 0; l < lanes; ++l)
      if (first_sets[l] != nullptr) side[static_cast<Index>(l)] = first_sets[l][i];
    side = absolute(s.limit(i, side)) == infinite ? Lanes{} : side;  // of a warm start
    side_[i] = side == 0 && s.lower[i] == s.upper[i] ? one : side;
  }
}

void Quartet::solve(const std::array<Instance, lanes>& instances, const std::vector<Index>& bounded,
                    const std::array<const std::int8_t*, lanes>& first_sets, Workspace& workspace) {
  Data data(workspace, n_, m_, p_, k_);
  Search& s = data.search;
  data.read(instances);
  data.read_limits(instances, bounded);
  stack(data, bounded);
  Lanes pivots = sweep(LaneMatrix(s.M, k_, k_), s.lengths);
  reduce(data.x, data.y, s.t);
  s.size = norm2(data.x, n_) + norm2(data.y, p_);
  begin(s, first_sets);
  search(s);
  for (Index i = 0; i < k_; ++i) {
    const Lanes share = F_[i * k_ + i] / s.lengths[i];
    pivots = side_[i] != 0 ? smaller(pivots, share * share) : pivots;
  }
  expand(data.x, data.y, s.lambda);
  QuartetResult& result = workspace.result;
  for (Index l = 0; l < lanes; ++l) {
    const auto lane = static_cast<std::size_t>(l);
    result.exact[lane] = s.solved[l] != 0 && pivots[l] >= ill_conditioned;
    result.changes[lane] = static_cast<int>(s.changes[l]);
  }
  orient_fixed(s);
  write(data, instances, bounded, result);
}

/// A row with equal limits is held by the one that it is pushed against, and by the upper one where nothing
/// pushes.
void Quartet::orient_fixed(const Search& s) const {
  Lanes size_of_push = s.size;
  for (Index row = 0; row < k_; ++row)
    size_of_push = larger(size_of_push, absolute(s.lambda[row]) * s.lengths[row]);
  for (Index row = 0; row < k_; ++row) {
    const LaneMask fixed = s.lower[row] == s.upper[row];
    const LaneMask idle = absolute(s.lambda[row]) * s.lengths[row] <= rounding * size_of_push;
    s.lambda[row] = fixed & idle ? Lanes{} : s.lambda[row];
    const Lanes size = side_[row] * side_[row];
    const Lanes pushed = s.lambda[row] < 0 ? -size : size;
    side_[row] = fixed ? pushed : side_[row];
  }
}

/// The point, its products with the user's data, and what they say of it.
void Quartet::write(Data& data, const std::array<Instance, lanes>& instances,
                    const std::vector<Index>& bounded, QuartetResult& result) const {
  const Search& s = data.search;
  Lanes* z = s.v;  // no longer needed
  for (Index i = 0; i < m_; ++i) z[i] = larger(s.lambda[i], Lanes{});
  Lanes* z_box = data.rest.take(n_);
  std::fill_n(z_box, n_, Lanes{});
  for (Index row = m_; row < k_; ++row) {
    const LaneMask kept = s.lower[row] == s.upper[row] || side_[row] * s.lambda[row] > 0;
    z_box[bounded[static_cast<std::size_t>(row - m_)]] = kept ? s.lambda[row] : Lanes{};
  }
  const auto product = [&](const LaneMatrix& A, const Lanes* x) {
    Lanes* y = data.rest.take(A.rows);
    std::fill_n(y, A.rows, Lanes{});
    add_product(1, A, x, y);
    return y;
  };
  const auto transposed_product = [&](const LaneMatrix& A, const Lanes* x) {
    Lanes* y = data.rest.take(A.columns);
    std::fill_n(y, A.columns, Lanes{});
    add_transposed_product(1, A, x, y);
    return y;
  };
  const Lanes* Gx = product(data.G, data.x);
  scatter(data.x, result.point.x);
  scatter(data.y, result.point.y);
  scatter(z, result.point.z);
  scatter(z_box, result.point.z_box);
  scatter(product(data.P, data.x), result.products.Px);
  scatter(product(data.A, data.x), result.products.Ax);
  scatter(Gx, result.products.Gx);
  scatter(transposed_product(data.A, data.y), result.products.Aty);
  scatter(transposed_product(data.G, z), result.products.Gtz);
  for (Index l = 0; l < lanes; ++l) {
    const auto lane = static_cast<std::size_t>(l);
    if (!result.exact[lane]) continue;
    const PointView point{.x = result.point.x.col(l),
                          .y = result.point.y.col(l),
                          .z = result.point.z.col(l),
                          .z_box = result.point.z_box.col(l)};
    const VectorsView vectors = instances[lane].vectors();
    const ProductsView products = result.products.column(l);
    result.residuals[lane] = relative_residuals(vectors, point, products, data.largest_P[l]);
    result.objective[lane] = point.x.dot(0.5 * products.Px + vectors.q);
    result.exact[lane] = result.residuals[lane].below(exact_enough);
  }
  const Lanes margin = measure_margin(s, Gx, data.x, bounded);
  for (Index l = 0; l < lanes; ++l) result.margin[static_cast<std::size_t>(l)] = margin[l];
}

Lanes Quartet::measure_margin(const Search& s, const Lanes* Gx, const Lanes* x,
                              const std::vector<Index>& bounded) const {
  Lanes smallest = infinite * one;
  for (Index i = 0; i < k_; ++i) {
    const Lanes value = i < m_ ? Gx[i] : x[bounded[static_cast<std::size_t>(i - m_)]];
    const Lanes multiplier = absolute(s.lambda[i]) * s.lengths[i];
    const Lanes slack = smaller(s.upper[i] - value, value - s.lower[i]) / s.lengths[i];
    const Lanes own = larger(slack, multiplier);
    const LaneMask passed_over = s.lower[i] == s.upper[i] || s.M[i * k_ + i] == 0;  // row of zeros
    smallest = passed_over ? smallest : smaller(smallest, own);
  }
  return s.size > 0 ? smallest / s.size : smallest;  // (G1)
}

}  // namespace altdiff::detail
