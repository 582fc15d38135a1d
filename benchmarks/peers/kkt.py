"""KKT systems of given matrices, solved for any set of active rows, with residuals in extended precision.

    [P  C_S'] [x     ]   [f]
    [C_S  0 ] [lambda] = [g]         C = [A; G], S = all of A and the active rows of G

By block elimination: P = LL' and Y = L^-1 C' once, then one Cholesky of Y_S'Y_S for each S.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from benchmarks.peers.problems import Array, Mask

Extended = NDArray[np.longdouble]
BLOCK = 512  # rows that are held in extended precision at a time
REFINEMENTS = 12


def times(matrix: Array, vector: Extended) -> Extended:
    """matrix @ vector in extended precision."""
    blocks = (matrix[k : k + BLOCK].astype(np.longdouble) @ vector for k in range(0, len(matrix), BLOCK))
    return np.concatenate([np.zeros(0, np.longdouble), *blocks])


def transposed_times(matrix: Array, vector: Extended) -> Extended:
    """matrix' @ vector in extended precision."""
    result = np.zeros(matrix.shape[1], np.longdouble)
    for k in range(0, len(matrix), BLOCK):
        result += vector[k : k + BLOCK] @ matrix[k : k + BLOCK].astype(np.longdouble)
    return result


class Kkt:
    """The factors that all sets of active rows have in common."""

    def __init__(self, P: Array, A: Array, G: Array) -> None:
        self.P, self.C, self.p = P, np.concatenate([A, G]), len(A)
        self.L = cholesky(P, lower=True)
        self.Y = self._half_solve(self.C.T)  # L^-1 C'
        self.M = self.Y.T @ self.Y  # C P^-1 C'

    def _half_solve(self, right: Array) -> Array:
        return np.asarray(solve_triangular(self.L, right, lower=True))

    def rows(self, active: Mask) -> NDArray[np.intp]:
        """The places in C of all equalities and the active inequalities."""
        return np.concatenate([np.arange(self.p), self.p + np.flatnonzero(active)])

    def violations(self, q: Array, b: Array, h: Array) -> Array:
        """C x - (b; h) at the minimiser without constraints, -P^-1 q."""
        return np.asarray(-self.Y.T @ self._half_solve(q) - np.concatenate([b, h]))

    def solve(self, active: Mask, f: Array, g: Array) -> tuple[Extended, Extended]:
        """x and lambda, refined until the corrections no longer shrink."""
        rows = self.rows(active)
        C, Y = self.C[rows], self.Y[:, rows]
        factor = cho_factor(self.M[np.ix_(rows, rows)], lower=True) if rows.size else None
        x, multipliers = np.zeros(f.size, np.longdouble), np.zeros(rows.size, np.longdouble)
        last = np.inf
        for _ in range(REFINEMENTS):
            top = np.asarray(f - times(self.P, x) - transposed_times(C, multipliers), np.float64)
            bottom = np.asarray(g - times(C, x), np.float64)
            half = self._half_solve(top)
            step = np.zeros(0) if factor is None else cho_solve(factor, Y.T @ half - bottom)
            move = solve_triangular(self.L, half - Y @ step, lower=True, trans="T")
            size = float(np.abs(move).max(initial=0.0) + np.abs(step).max(initial=0.0))
            if size >= last / 2:
                break
            x, multipliers, last = x + move, multipliers + step, size
        return x, multipliers
