// What a user writes: the point nearest to (1, 2.5) with x1 + x2 <= 1, dense and sparse, and its derivative.
#include <altdiff/altdiff.hpp>
#include <iostream>

namespace {

bool close(const altdiff::Vector& a, const altdiff::Vector& b) {
  return a.size() == b.size() && (a - b).lpNorm<Eigen::Infinity>() < 1e-7;
}

template <altdiff::Matrix M>
bool solves_and_differentiates(const M& P, const M& G) {
  const altdiff::Vector q{{-2.0, -5.0}};
  const altdiff::Vector h{{1.0}};
  const altdiff::QuadraticProgram qp{.P = P, .q = q, .G = G, .h = h};
  const auto solution = altdiff::solve(qp, {.tolerance = 1e-9});
  if (solution.status != altdiff::Status::Solved || !close(solution.x, altdiff::Vector{{-0.25, 1.25}})) {
    return false;
  }
  const auto bar = altdiff::vjp(qp, solution, altdiff::Vector{{1.0, 0.0}});
  return close(bar.q, altdiff::Vector{{-0.25, 0.25}}) && close(bar.h, altdiff::Vector{{0.5}});
}

}  // namespace

int main() {
  const altdiff::DenseMatrix P{{2.0, 0.0}, {0.0, 2.0}};
  const altdiff::DenseMatrix G{{1.0, 1.0}};
  const bool dense = solves_and_differentiates(P, G);
  const bool sparse = solves_and_differentiates<altdiff::SparseMatrix>(P.sparseView(), G.sparseView());
  std::cout << "dense: " << (dense ? "right" : "wrong") << ", sparse: " << (sparse ? "right" : "wrong")
            << '\n';
  return dense && sparse ? 0 : 1;
}
