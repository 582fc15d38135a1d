"""The rows that hold with equality at a solution: how far it may move, and its derivative by sparse LU."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp
from altdiff import Solution
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from benchmarks.sets.solvers import Whole

Vector = NDArray[np.float64]


def _slacks(full: Whole, solution: Solution) -> tuple[Vector, Vector, Vector]:
    """Of G, ub and lb, without the sign that rounding may give them; active: the multiplier is larger."""
    s, above, below = full.h - full.G @ solution.x, full.ub - solution.x, solution.x - full.lb
    return s.clip(min=0), above.clip(min=0), below.clip(min=0)


def largest_step(full: Whole, solution: Solution, tangent: altdiff.Tangent) -> float:
    """How far along the tangent, either way, no slack and no multiplier reaches zero."""
    fixed = full.lb == full.ub
    s, above, below = _slacks(full, solution)
    z_up, z_down = solution.z_box.clip(min=0), (-solution.z_box).clip(min=0)
    free = ~fixed
    value = np.concatenate(
        [np.maximum(s, solution.z), np.maximum(above, z_up)[free], np.maximum(below, z_down)[free]]
    )
    speed = np.concatenate(
        [
            np.where(solution.z > s, tangent.z, full.G @ tangent.x),
            np.where(z_up > above, tangent.z_box, tangent.x)[free],
            np.where(z_down > below, tangent.z_box, tangent.x)[free],
        ]
    )
    moving = np.isfinite(value) & (np.abs(speed) > 0)
    return float(np.min(value[moving] / np.abs(speed[moving]), initial=np.inf))


def kkt_adjoint(full: Whole, solution: Solution, x_bar: Vector) -> Vector:
    """The gradient of q: the KKT matrix on the active rows, factorised by SuperLU, refined three times."""
    s, above, below = _slacks(full, solution)
    bounds = (solution.z_box > above) | (-solution.z_box > below) | (full.lb == full.ub)
    eye = sp.eye_array(x_bar.size, format="csr")
    rows: Any = sp.vstack(
        [full.A, full.G.tocsr()[np.flatnonzero(solution.z > s)], eye[np.flatnonzero(bounds)]]
    )
    P: Any = (full.P + full.P.T) / 2
    K: Any = sp.bmat([[P, rows.T], [rows, None]], format="csc")
    right = np.concatenate([-x_bar, np.zeros(rows.shape[0])])
    factor = splu(K)
    t = factor.solve(right)
    for _ in range(3):
        t = t + factor.solve(right - K @ t)
    return np.asarray(t[: x_bar.size])
