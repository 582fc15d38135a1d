"""The exact solution and gradient of a chain: one sparse KKT system on the right active set.

altdiff proposes the set of bounds that hold with equality; the signs of all multipliers and slacks then prove
it, whoever proposed it. With the variables at a bound fixed, the others x_f and y satisfy

    [P_ff A_f'; A_f 0] (x_f, y) = (-q_f, b - A_a x_a),        and the gradient of q is u of
    [P_ff A_f'; A_f 0] (u, v) = (-x_bar_f, 0),                zero on fixed variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from benchmarks.chain.problems import Array, Chain
from benchmarks.peers.reference import Saved
from benchmarks.sets.solvers import Whole, whole

REFINEMENTS = 2
ROUNDING = 1e-11  # of a slack or multiplier that is zero


@dataclass(frozen=True)
class Reference(Saved):
    """What a layer ought to give."""

    x: Array
    q: Array  # the gradient of q


class Kkt:
    """The factorised system of the free variables."""

    def __init__(self, P: Any, A: Any) -> None:
        self.matrix = sp.block_array([[P, A.T], [A, None]], format="csc")
        self.factors = splu(self.matrix)

    def solve(self, right: Array) -> Array:
        """With refinement: pivots are chosen for sparsity, too."""
        solution = self.factors.solve(right)
        for _ in range(REFINEMENTS):
            solution += self.factors.solve(right - self.matrix @ solution)
        return np.asarray(solution)


def solve_reference(chain: Chain) -> Reference:
    """Raises if the proposed active set is wrong."""
    qp = whole(chain.program())
    proposed = altdiff.solve_qp(**chain.program().fields())
    if proposed.status != altdiff.Status.SOLVED:
        raise RuntimeError(f"no reference: {proposed.status.name}")
    side = np.sign(proposed.z_box)
    free = np.flatnonzero(side == 0.0)
    kkt = Kkt(qp.P[free][:, free], qp.A[:, free])
    x = np.where(side > 0.0, qp.ub, np.where(side < 0.0, qp.lb, 0.0))
    x[free], y = np.split(kkt.solve(np.concatenate([-qp.q[free], qp.b - qp.A @ x])), [free.size])
    prove(x, -(qp.P @ x + qp.q + qp.A.T @ y), side, qp)
    gradient = np.zeros(chain.n)
    right = np.concatenate([-chain.cotangent()[free], np.zeros(qp.b.size)])
    gradient[free] = kkt.solve(right)[: free.size]
    return Reference(x, gradient)


def prove(x: Array, z_box: Array, side: Array, qp: Whole) -> None:
    """Free variables are within their bounds, and fixed ones are pressed against theirs.

    Both strictly: where a slack and its multiplier vanish together, there is no one gradient.
    """
    free = side == 0.0
    slack = np.minimum(x - qp.lb, qp.ub - x)[free]
    pressure = (side * z_box)[~free]
    if min(slack, default=1.0) <= ROUNDING or min(pressure, default=1.0) <= ROUNDING:
        raise RuntimeError("the active set of the reference is wrong, or the solution is degenerate")
