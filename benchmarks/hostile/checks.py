"""Judges answers and gradients, with nothing from the library that gave them.

The residuals are (R1) to (R3) of docs/math.md, from products in extended precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from benchmarks.hostile.problems import Point, Problem
from benchmarks.hostile.rows import Array

Extended = NDArray[np.longdouble]
Mask = NDArray[np.bool_]

ROUNDING = 1.001  # the library compares with the tolerance in double precision
CERTAIN = 1e-6  # a constraint whose slack and multiplier are both smaller may or may not be active
INDEPENDENT, DEPENDENT = 1e-8, 1e-12  # singular values of rows that certainly are so
LARGEST_CONDITION = 1e8  # of a gradient that is worth comparing
GRADIENT_TOLERANCE = 1e-8  # the library's default


@dataclass(frozen=True)
class Residuals:
    """Relative residuals; NaN fails."""

    primal: float
    dual: float
    gap: float

    @property
    def worst(self) -> float:
        """The largest; NaN if any is."""
        return float(np.max([self.primal, self.dual, self.gap]))

    def within(self, tolerance: float) -> bool:
        """Whether the answer is what SOLVED promises."""
        return self.worst <= tolerance * ROUNDING


def residuals(problem: Problem, point: Point) -> Residuals:
    """The residuals of a point, whatever its multipliers were found by."""
    parts = (problem.P, problem.q, problem.G, problem.h, problem.A, problem.b, problem.lb, problem.ub)
    return residuals_of(parts, point)


def residuals_of(parts: tuple[Any, ...], point: Point) -> Residuals:
    """The same from P, q, G, h, A, b, lb, ub: absent rows without entries, absent bounds infinite.

    Matrices may be sparse.
    """
    P, q, G, h, A, b, lb, ub = (extended(part) for part in parts)
    x, y, z, z_box = (extended(part) for part in (point.x, point.y, point.z, point.z_box))
    limited, below, above = np.isfinite(h), np.isfinite(lb), np.isfinite(ub)
    Px, Ax, Gx, Aty, Gtz = P @ x, A @ x, G @ x, A.T @ y, G.T @ z
    violation = largest(Ax - b, positive(Gx - h), positive(lb - x), positive(x - ub))
    primal = violation / max(1.0, largest(Ax, b, Gx, x))  # (R1)

    size = largest(P, q)
    floor = min(1.0, size) if size > 0.0 else 1.0
    signs = (positive(-z), z[~limited], positive(z_box)[~above], positive(-z_box)[~below])
    dual = largest(Px + q + Aty + Gtz + z_box, *signs) / max(floor, largest(Px, q, Aty, Gtz, z_box))  # (R2)

    bounds = positive(z_box)[above] @ ub[above] - positive(-z_box)[below] @ lb[below]
    terms = [x @ Px, q @ x, b @ y, z[limited] @ h[limited], bounds]
    gap = abs(float(sum(terms))) / max(floor, *(abs(float(term)) for term in terms))  # (R3)
    return Residuals(primal, dual, gap)


def extended(array: Any) -> Any:
    """In the widest format of this machine; a sparse matrix stays sparse."""
    sparse: bool = issparse(array)
    return array.astype(np.longdouble) if sparse else np.asarray(array, dtype=np.longdouble)


def positive(array: Extended) -> Extended:
    """Positive parts; NaN stays."""
    return np.maximum(array, np.longdouble(0.0))


def largest(*arrays: Any) -> float:
    """The largest absolute entry of several arrays; NaN if there is any."""
    sparse: list[bool] = [issparse(array) for array in arrays]
    entries = [np.abs(a.data if stored else a).ravel() for a, stored in zip(arrays, sparse, strict=True)]
    return float(np.max(np.concatenate([*entries, np.zeros(1, dtype=np.longdouble)])))


def not_finite(problem: Problem, gradient: Any) -> list[str]:
    """The fields whose gradient is missing, or holds an infinity or NaN."""
    values = {name: getattr(gradient, name) for name in problem.given()}
    return [name for name, value in values.items() if value is None or not np.isfinite(value).all()]


def gradient_error(problem: Problem, point: Point, x_bar: Array, q_bar: Array) -> float | None:
    """The error of the gradient of q in units of what is allowed; None if the active set is in doubt.

    The reference moves x within the null space of the active rows C: q_bar = -N (N'PN)^-1 N' x_bar. Allowed
    are what rounding leaves of it, and a residual (R4) of ten times the library's tolerance: of C q_bar = 0,
    which the smallest singular value of C magnifies, and of N'(P q_bar + x_bar) = 0, likewise.
    """
    C = active_rows(problem, point)
    if C is None:
        return None
    n = problem.q.size
    _, values, V = np.linalg.svd(np.vstack([C, np.zeros((n, n))]))
    if ((values > DEPENDENT) & (values < INDEPENDENT)).any():
        return None
    N = V[values <= DEPENDENT].T
    H = N.T @ problem.P @ N
    steepest, flattest = np.abs(problem.P).max(), min(np.linalg.eigvalsh(H), default=np.inf)
    smallest = min(values[values > DEPENDENT], default=1.0)
    condition = steepest / min(flattest, steepest) / smallest
    if not 0.0 < condition < LARGEST_CONDITION:
        return None
    reference = -N @ np.linalg.solve(H, N.T @ x_bar)
    size = np.abs(x_bar).max()
    allowed = (1e-5 + 1e-12 * condition) * max(np.abs(reference).max(), size / steepest)
    allowed += 10 * GRADIENT_TOLERANCE * size * (1 / smallest + 1 / flattest)
    return float(np.abs(q_bar - reference).max() / allowed)


def active_rows(problem: Problem, point: Point) -> Array | None:
    """The constraints that hold with equality, as rows of length one; None where that is in doubt."""
    lengths = np.linalg.norm(problem.G, axis=1)
    real = np.isfinite(problem.h) & (lengths > 0.0)
    G, h, z, lengths = problem.G[real], problem.h[real], point.z[real], lengths[real]
    forces = (problem.P @ point.x, problem.q, point.z_box)
    steepness = max(np.abs(force).max() for force in forces) or 1.0
    reach = max(1.0, np.abs(point.x).max())
    rows = certainly((h - G @ point.x) / lengths / reach, z * lengths / steepness)
    fixed = problem.lb == problem.ub
    slack = np.minimum(point.x - problem.lb, problem.ub - point.x) / reach
    bounds = certainly(np.where(fixed, 0.0, slack), np.where(fixed, 1.0, np.abs(point.z_box) / steepness))
    if rows is None or bounds is None:
        return None
    A = problem.A / np.linalg.norm(problem.A, axis=1, keepdims=True)
    return np.vstack([A, G[rows] / lengths[rows, None], np.eye(problem.q.size)[bounds]])


def certainly(slack: Array, multiplier: Array) -> Mask | None:
    """Which constraints are active; None unless exactly one of slack and multiplier is near zero for each."""
    clear = (np.maximum(slack, multiplier) > CERTAIN) & (np.minimum(slack, multiplier) < CERTAIN / 10)
    return multiplier > slack if clear.all() else None
