"""Problems with a solution, without one, and without a meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rng = np.random.Generator
KINDS = ("solvable", "linear", "infeasible", "unbounded", "redundant", "scaled", "nonconvex", "free")


@dataclass
class Case:
    """Dense arrays; `sparse` says how they are handed over."""

    kind: str
    sparse: bool
    P: Array
    q: Array
    G: Array
    h: Array
    A: Array
    b: Array
    lb: Array
    ub: Array

    def arguments(self) -> dict[str, Any]:
        """What solve_qp takes."""
        matrix = sp.csc_matrix if self.sparse else np.asarray
        blocks = {"P": matrix(self.P), "q": self.q, "lb": self.lb, "ub": self.ub}
        if self.h.size:
            blocks |= {"G": matrix(self.G), "h": self.h}
        if self.b.size:
            blocks |= {"A": matrix(self.A), "b": self.b}
        return blocks


def thinned(rng: Rng, *shape: int) -> Array:
    """Normal numbers, some of them zero."""
    numbers: Array = rng.normal(size=shape) * (rng.uniform(size=shape) < rng.choice([0.2, 0.5, 1.0]))
    return numbers


def solvable(rng: Rng, kind: str) -> Case:
    """Feasible around a point, and bounded: q is stationary there, or P definite."""
    n, m, p = int(rng.integers(1, 30)), int(rng.integers(0, 30)), int(rng.integers(0, 8))
    p = min(p, n)
    rank = 0 if kind == "linear" else int(rng.integers(0, n + 1))
    root = thinned(rng, n, rank)
    x, G, A = rng.normal(size=n), thinned(rng, m, n), thinned(rng, p, n)
    active = rng.uniform(size=m) < 0.4
    h = G @ x + np.where(active, 0.0, rng.uniform(0.1, 2, size=m))
    z, y = active * rng.exponential(size=m), rng.normal(size=p)
    lb = np.where(rng.uniform(size=n) < 0.5, x - rng.uniform(0.1, 2, size=n), -np.inf)
    ub = np.where(rng.uniform(size=n) < 0.5, x + rng.uniform(0.1, 2, size=n), np.inf)
    P = root @ root.T
    q = -(P @ x + G.T @ z + A.T @ y)
    return Case(kind, bool(rng.integers(2)), P, q, G, h, A, A @ x, lb, ub)


def make(seed: int) -> Case:
    """The problem of a seed."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(KINDS))
    case = solvable(rng, kind)
    n = case.q.size
    if kind == "infeasible":
        row = thinned(rng, n) + 0.1 * rng.normal(size=n)
        gap = 10.0 ** rng.uniform(-3, 2)
        case.G = np.vstack([case.G, row, -row])
        case.h = np.concatenate([case.h, [1.0, -1.0 - gap]])
    elif kind == "unbounded":
        ray = rng.normal(size=n)
        ray /= np.abs(ray).max()
        project = np.eye(n) - np.outer(ray, ray) / (ray @ ray)
        case.P, case.A, case.b = project @ case.P @ project, case.A @ project, case.b
        case.b = case.A @ rng.normal(size=n)
        case.G -= np.outer(np.maximum(case.G @ ray, 0), ray) / (ray @ ray)
        case.lb[ray < 0], case.ub[ray > 0] = -np.inf, np.inf
        case.q = case.q - ray * (2 * abs(case.q @ ray) + 1) / (ray @ ray)
    elif kind == "redundant":
        rows = rng.integers(0, max(1, case.h.size), size=5) if case.h.size else np.zeros(0, dtype=int)
        case.G, case.h = np.vstack([case.G, 2 * case.G[rows]]), np.concatenate([case.h, 2 * case.h[rows]])
        if case.b.size:
            case.A, case.b = np.vstack([case.A, case.A[:1]]), np.append(case.b, case.b[0])
    elif kind == "scaled":
        rows = 10.0 ** rng.uniform(-8, 8, size=case.h.size)
        case.G, case.h = case.G * rows[:, None], case.h * rows
        factor = 10.0 ** rng.uniform(-8, 8)
        case.P, case.q = factor * case.P, factor * case.q
    elif kind == "nonconvex":
        d = rng.normal(size=n)
        case.P = case.P - (1 + np.abs(case.P).sum()) * np.outer(d, d) / (d @ d)
    elif kind == "free":
        case.q, case.h = rng.normal(size=n), rng.normal(size=case.h.size)
        case.b = rng.normal(size=case.b.size)
    return case
