#pragma once

#include "engines/active_set/engine.hpp"
#include "linalg/lanes.hpp"

namespace altdiff::detail {

/// What became of four instances; only of those that are `exact` there is anything to read.
struct QuartetResult {
  PointBlock point{};  // one column each
  Products products;
  std::array<Residuals, lanes> residuals{};
  std::array<double, lanes> objective{}, margin{};
  std::array<int, lanes> changes{};
  std::array<bool, lanes> exact{};
};

/// Four tiny programs, each with matrices of its own, one in each lane of a vector: (AS1)-(AS6) as in
/// ConstraintSpace, and the primal-dual search, without a branch that only some of the four would take. Sets
/// are masks, and M_SS is M with the rows and columns outside S replaced by those of the identity.
///
/// It is for the many that are easy: what is ill conditioned, redundant or slow to converge is not `exact`,
/// and left to the engine that takes such cases one by one.
class Quartet {
 public:
  static constexpr Index largest = 32;  ///< rows of constraints
  /// Sizes where it is faster than one by one (measured).
  [[nodiscard]] static bool serves(Index n, Index p, Index k) { return n <= 16 && p + k <= largest; }
  /// How many numbers it keeps, for all four.
  [[nodiscard]] static Index memory(Index n, Index p, Index k) {
    return lanes * ((n + p + k) * n + n + (p + k + 1) * p + (k + 2) * k);
  }

  Quartet() = default;
  Quartet(Index n, Index m, Index p, const std::vector<Index>& bounded, double* memory);

  /// The working memory of one `solve` after another.
  struct Workspace {
    Workspace(Index n, Index m, Index p, Index k);
    Memory numbers;
    QuartetResult result;
  };
  /// `first_sets`: where the search begins, k numbers (+1 at upper, -1 at lower, 0 inside) for each lane.
  void solve(const std::array<Instance, lanes>& instances, const std::vector<Index>& bounded,
             const std::array<const std::int8_t*, lanes>& first_sets, Workspace& workspace);

  /// Solves (AS6) in place, on the four active sets; see solve_kkt.
  void solve_kkt(Lanes* a, Lanes* c_E, Lanes* c_I) const;

  /// +1, -1 or 0: at which limit a row is active.
  [[nodiscard]] int side(Index row, Index lane) const {
    return static_cast<int>(reinterpret_cast<const double*>(side_ + row)[lane]);
  }
  [[nodiscard]] Index inequalities() const { return k_; }
  /// How many of them are active.
  [[nodiscard]] Index active(Index lane) const {
    Index count = 0;
    for (Index row = 0; row < k_; ++row) count += side(row, lane) != 0 ? 1 : 0;
    return count;
  }

 private:
  struct Search;
  struct Data;
  [[nodiscard]] LaneMatrix T() const { return {T_, n_ + p_ + k_, n_}; }
  [[nodiscard]] LaneMatrix L() const { return {T_, n_, n_}; }
  [[nodiscard]] LaneMatrix Y_E() const { return T().middle_rows(n_, p_); }
  [[nodiscard]] LaneMatrix Y_I() const { return T().middle_rows(n_ + p_, k_); }
  [[nodiscard]] LaneMatrix E() const { return {E_, p_ + k_, p_}; }
  [[nodiscard]] LaneMatrix W() const { return E().middle_rows(p_, k_); }
  [[nodiscard]] LaneMatrix F() const { return {F_, k_, k_}; }

  void reduce(Lanes* a, Lanes* c_E, Lanes* t_I) const;
  void expand(Lanes* w, Lanes* t_E, const Lanes* v_I) const;
  [[nodiscard]] Lanes sweep(const LaneMatrix& M, Lanes* lengths);
  void stack(const Data& data, const std::vector<Index>& bounded);
  void begin(Search& search, const std::array<const std::int8_t*, lanes>& first_sets) const;
  void search(Search& search) const;
  [[nodiscard]] Lanes flip_wrong_signs(const Search& search, const LaneMask& running) const;
  [[nodiscard]] Lanes solve_on_sets(const Search& search) const;
  void orient_fixed(const Search& search) const;
  void write(Data& data, const std::array<Instance, lanes>& instances, const std::vector<Index>& bounded,
             QuartetResult& result) const;
  [[nodiscard]] Lanes measure_margin(const Search& search, const Lanes* Gx, const Lanes* x,
                                     const std::vector<Index>& bounded) const;

  Index n_ = 0, m_ = 0, p_ = 0, k_ = 0;
  Lanes* T_ = nullptr;          // [L; Y_E'; Y_I']
  Lanes* inverse_L_ = nullptr;  // of the diagonal
  Lanes* E_ = nullptr;          // [L_E; W]
  Lanes* inverse_E_ = nullptr;
  Lanes* F_ = nullptr;  // factor of M_SS
  Lanes* inverse_F_ = nullptr;
  Lanes* side_ = nullptr;
};

}  // namespace altdiff::detail
