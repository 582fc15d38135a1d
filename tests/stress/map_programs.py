"""Programs whose solution is not unique, or only just: linear ones, and P singular along a face."""

from __future__ import annotations

import numpy as np

from tests.stress.blocks import with_rows
from tests.stress.programs import Array, Program, Rng, Shape
from tests.stress.structures import NEVER, structure


def _limits(rng: Rng, shape: Shape, x: Array, touching: float) -> tuple[Array, Array, Array, Array]:
    """G and h around a point, and which rows touch it."""
    G = rng.normal(size=(shape.m, shape.n))
    touch = rng.uniform(size=shape.m) < touching
    return G, G @ x + np.where(touch, 0.0, rng.uniform(0.3, 2.0, size=shape.m)), touch, x


@structure(NEVER)
def random_linear(rng: Rng, shape: Shape) -> Program:
    """Normal numbers, P = 0, a box: a vertex, and each row of G now and then parallel to q: then an edge."""
    n, m, p = shape
    x = rng.normal(size=n)
    G, h, _, _ = _limits(rng, shape, x, 0.0)
    A = rng.normal(size=(p, n))
    q = rng.normal(size=n)
    if m and rng.uniform() < 0.5:
        q = -G[0]
    lb, ub = x - rng.uniform(0.3, 2.0, size=n), x + rng.uniform(0.3, 2.0, size=n)
    return Program(np.zeros((n, n)), q, G, h, A, A @ x, lb, ub)


@structure(NEVER)
def random_face(rng: Rng, shape: Shape) -> Program:
    """P of low rank and q in its range plus multipliers: a face of solutions, cut by rows and bounds."""
    n, m, p = shape
    x = rng.normal(size=n)
    root = rng.normal(size=(n, int(rng.integers(0, n))))
    P = root @ root.T
    G, h, touch, _ = _limits(rng, shape, x, 0.3)
    A = rng.normal(size=(p, n))
    q = -(P @ x + G.T @ (touch * rng.uniform(0.3, 2.0, size=m)) + A.T @ rng.normal(size=p))
    some = rng.uniform(size=(2, n)) < 0.7
    lb = np.where(some[0], x - rng.uniform(0.3, 2.0, size=n), -np.inf)
    ub = np.where(some[1], x + rng.uniform(0.3, 2.0, size=n), np.inf)
    return Program(P, q, G, h, A, A @ x, lb, ub)


@structure(NEVER, with_rows)
def random_weak(rng: Rng, shape: Shape) -> Program:
    """Rows that touch the solution without force, beside rows that repeat each other."""
    n, m, p = shape
    x = rng.normal(size=n)
    root = rng.normal(size=(n, int(rng.integers(0, n + 1))))
    P = root @ root.T
    G, h, touch, _ = _limits(rng, shape, x, 0.8)
    G[-1], h[-1], touch[-1] = 2 * G[0], 2 * h[0], touch[0]
    A = rng.normal(size=(p, n))
    z = touch * rng.uniform(0.3, 2.0, size=m) * (rng.uniform(size=m) < 0.5)
    q = -(P @ x + G.T @ z + A.T @ rng.normal(size=p))
    return Program(P, q, G, h, A, A @ x, np.full(n, -np.inf), np.full(n, np.inf))
