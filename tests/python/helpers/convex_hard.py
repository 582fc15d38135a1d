"""Entropies and logarithms of M x - offset, whose minimum is next to the end of their domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from altdiff import Linear, Objective, Separable

from helpers.problems import Array

KINDS = ("entropy", "binary entropy", "-log")
# Programs with a row that M x - offset cannot tell from the end, far from any kink.
NEXT_TO_END = [("binary entropy", 142), ("binary entropy", 166), ("binary entropy", 284)]
_ROUNDING = 1e-15
_HIDDEN = 1e6  # roundings: closer to the end than this, the slope has no digits


@dataclass(frozen=True)
class Mapped:
    """minimise q'x + sum_i weight_i phi((M x - offset)_i) over the constraints."""

    kind: str
    q: Array
    weight: Array
    M: Array
    offset: Array
    constraints: dict[str, Any]

    @property
    def objective(self) -> Objective:
        """As a sum of terms."""
        return Linear(self.q) + Separable(self.kind, self.weight, self.M, self.offset)

    def with_numbers(self, **numbers: Array) -> Mapped:
        """With other numbers in the objective."""
        return replace(self, **numbers)  # type: ignore[arg-type]


def mapped(kind: str, seed: int) -> Mapped:
    """A random program with a point inside; of some seeds t is 1e-20 and less at the solution."""
    rng = np.random.default_rng([seed, 1 + KINDS.index(kind)])
    n = int(rng.integers(2, 12))
    k = int(rng.integers(1, 2 * n + 1))
    inside, M = rng.normal(size=n), rng.normal(size=(k, n))
    offset = M @ inside - rng.uniform(0.05, 0.95, size=k)
    q = 100 ** rng.uniform() * rng.normal(size=n)
    weight = rng.uniform(0.5, 2.0, size=k)
    p, m = int(rng.integers(0, n // 2 + 1)), int(rng.integers(0, n + 1))
    given: dict[str, Any] = {}
    if p:
        A = rng.normal(size=(p, n))
        given |= {"A": A, "b": A @ inside}
    if m:
        G = rng.normal(size=(m, n))
        given |= {"G": G, "h": G @ inside + 0.1 * rng.uniform(size=m)}
    given["lb"] = inside - rng.uniform(0.01, 2.0, size=n)
    given["ub"] = inside + rng.uniform(0.01, 2.0, size=n)
    return Mapped(kind, q, weight, M, offset, given)


def stationarity(program: Mapped, solution: Any) -> tuple[float, float]:
    """The relative residual, and how many roundings of M x - offset lie between it and the t that it is for.

    Of rows next to the end, M x does not tell the slope: it is the one with the smallest residual.
    """
    M, x, weight = program.M, solution.x, program.weight
    t = M @ x - program.offset
    rounding = _ROUNDING * (np.abs(M) @ np.abs(x) + np.abs(program.offset))
    hidden = (t if program.kind != "binary entropy" else np.minimum(t, 1.0 - t)) < _HIDDEN * rounding
    push = program.q + solution.z_box
    if "A" in program.constraints:
        push = push + program.constraints["A"].T @ solution.y
    if "G" in program.constraints:
        push = push + program.constraints["G"].T @ solution.z
    push = push + M[~hidden].T @ (weight[~hidden] * _slope(program.kind, t[~hidden]))
    scale = 1.0 + max(np.abs(program.q).max(), np.abs(solution.z_box).max())
    if not hidden.any():
        return float(np.abs(push).max() / scale), 0.0
    force, _, rank, _ = np.linalg.lstsq(M[hidden].T, -push, rcond=None)
    residual = float(np.abs(M[hidden].T @ force + push).max() / scale)
    if rank < hidden.sum():
        return residual, 0.0
    end = _inverse(program.kind, force / weight[hidden])
    return residual, float((np.abs(end - t[hidden]) / rounding[hidden]).max())


def _slope(kind: str, t: Array) -> Array:
    if kind == "entropy":
        return np.asarray(np.log(t) + 1.0)
    return np.asarray(np.log(t) - np.log1p(-t) if kind == "binary entropy" else -1.0 / t)


def _inverse(kind: str, slope: Array) -> Array:
    if kind == "entropy":
        return np.asarray(np.exp(slope - 1.0))
    return np.asarray(1.0 / (1.0 + np.exp(-slope)) if kind == "binary entropy" else -1.0 / slope)
