"""Random quadratic programs whose solution is known and strictly complementary, by construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Data: TypeAlias = dict[str, Any]

FIELDS = ("P", "q", "G", "h", "A", "b", "lb", "ub")
POINT = ("x", "y", "z", "z_box")


@dataclass(frozen=True)
class Known:
    """A problem, and the solution that it was built around."""

    data: Data
    x: Array
    y: Array
    z: Array
    z_box: Array


def known_problem(
    seed: int, n: int, m: int = 0, p: int = 0, bounds: bool = True, density: float = 1.0
) -> Known:
    """Chooses x, the multipliers and the slacks, and makes the data fit them.

    Every active constraint has a multiplier of at least 1/2 and every other a slack of at least 1/2, and no
    more are active than there are degrees of freedom: x and the multipliers are smooth in the data.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=p)
    freedom = n - p
    active_rows = min(m, (freedom + 1) // 2)
    active_bounds = min((freedom - active_rows) // 2, n) if bounds else 0

    P = _sparsified(rng, rng.normal(size=(n, n)), density)
    P = P @ P.T / n + 0.1 * np.eye(n)
    A = _sparsified(rng, rng.normal(size=(p, n)), density)
    G = _sparsified(rng, rng.normal(size=(m, n)), density)
    z = np.zeros(m)
    z[rng.permutation(m)[:active_rows]] = _away_from_zero(rng, active_rows)
    slack = np.where(z > 0, 0.0, _away_from_zero(rng, m))
    z_box = np.zeros(n)
    side = rng.choice([-1.0, 1.0], size=active_bounds)
    z_box[rng.permutation(n)[:active_bounds]] = side * _away_from_zero(rng, active_bounds)

    data: Data = {"P": P, "q": -(P @ x + A.T @ y + G.T @ z + z_box)}
    if m:
        data |= {"G": G, "h": G @ x + slack}
    if p:
        data |= {"A": A, "b": A @ x}
    if bounds:
        data["lb"] = np.where(z_box < 0, x, x - _away_from_zero(rng, n))
        data["ub"] = np.where(z_box > 0, x, x + _away_from_zero(rng, n))
    return Known(data, x, y, z, z_box)


def natural_problem(seed: int, n: int, m: int, p: int) -> Data:
    """A feasible problem whose active set is left to chance, with bounds on every variable."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(n, n))
    x = rng.normal(size=n)
    A, G = rng.normal(size=(p, n)), rng.normal(size=(m, n))
    return {
        "P": L @ L.T / n + 0.1 * np.eye(n),
        "q": rng.normal(size=n),
        "G": G,
        "h": G @ x + rng.uniform(size=m),
        "A": A,
        "b": A @ x,
        "lb": x - rng.uniform(0.1, 1.0, size=n),
        "ub": x + rng.uniform(0.1, 1.0, size=n),
    }


def as_sparse(data: Data) -> Data:
    """The same problem with P, G and A as scipy.sparse matrices."""
    return {
        name: scipy.sparse.csc_matrix(value) if name in ("P", "G", "A") else value
        for name, value in data.items()
    }


def dense(value: Any) -> Array:
    """A gradient as a dense array."""
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def filled(data: Data) -> Data:
    """The same problem with all eight fields: absent blocks have no rows, absent bounds are infinite."""
    n = data["q"].size
    empty: Data = {
        "G": np.zeros((0, n)),
        "h": np.zeros(0),
        "A": np.zeros((0, n)),
        "b": np.zeros(0),
        "lb": np.full(n, -np.inf),
        "ub": np.full(n, np.inf),
    }
    return {**empty, **{name: dense(value) for name, value in data.items() if value is not None}}


def kkt_error(data: Data, solution: Any) -> float:
    """The largest violation of the optimality conditions, recomputed from the data."""
    P, q, G, h, A, b, lb, ub = (filled(data)[name] for name in FIELDS)
    x, y, z, z_box = (np.asarray(getattr(solution, name)) for name in POINT)
    finite_h, finite_lb, finite_ub = np.isfinite(h), np.isfinite(lb), np.isfinite(ub)
    slack = (h - G @ x)[finite_h]
    below, above = (x - lb)[finite_lb], (ub - x)[finite_ub]
    parts = [
        (P + P.T) / 2 @ x + q + A.T @ y + G.T @ z + z_box,
        A @ x - b,
        np.minimum(slack, 0.0),
        np.minimum(below, 0.0),
        np.minimum(above, 0.0),
        np.minimum(z, 0.0),
        z[finite_h] * slack,
        z[~finite_h],
        np.minimum(z_box, 0.0)[finite_lb] * below,
        np.maximum(z_box, 0.0)[finite_ub] * above,
        np.minimum(z_box, 0.0)[~finite_lb],
        np.maximum(z_box, 0.0)[~finite_ub],
    ]
    return max(float(np.abs(part).max(initial=0.0)) for part in parts)


def _sparsified(rng: np.random.Generator, matrix: Array, density: float) -> Array:
    """Drops entries, but keeps one in every row, and a different one while columns last."""
    rows, columns = matrix.shape
    keep = rng.uniform(size=matrix.shape) < density
    keep[np.arange(rows), np.arange(rows) % columns] = True
    return np.where(keep, matrix, 0.0)


def _away_from_zero(rng: np.random.Generator, size: int) -> Array:
    return rng.uniform(0.5, 1.5, size=size)
