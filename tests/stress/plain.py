"""Structures of ordinary size: what makes them hard is their shape."""

from __future__ import annotations

import numpy as np

from tests.stress.blocks import bounds, curvature, integer_program, integers, stationary, with_rows
from tests.stress.programs import Array, Program, Rng, Shape
from tests.stress.structures import FULL, structure


def _tall(rng: Rng) -> Shape:
    return Shape(int(rng.integers(1, 5)), int(rng.integers(15, 41)), int(rng.integers(0, 2)))


def _over(rng: Rng) -> Shape:
    n = int(rng.integers(1, 5))
    return Shape(n, int(rng.integers(0, 4)), n + int(rng.integers(1, 4)))


def _no_rows(rng: Rng) -> Shape:
    return Shape(int(rng.integers(1, 7)), 0, 0)


def _transport(rng: Rng) -> Shape:
    sources, sinks = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    return Shape(sources * sinks, sources, sinks)


def _blanked(rng: Rng, rows: int) -> Array:
    """Which rows become zero: at least one."""
    blank = rng.uniform(size=rows) < 0.4
    blank[rng.integers(rows)] = True
    return blank


@structure(FULL)
def integer(rng: Rng, shape: Shape) -> Program:
    """Small integers throughout; P of any rank; feasible or not, bounded or not."""
    return integer_program(rng, shape)


@structure(FULL, with_rows)
def zero_rows_of_G(rng: Rng, shape: Shape) -> Program:
    """Rows 0 x <= h with h positive, zero, now and then negative; P sometimes with a negative direction."""
    r = integer_program(rng, shape)
    blank = _blanked(rng, shape.m)
    r.G[blank] = 0.0
    r.h[blank] = rng.choice([0.0, 1.0, 5.0, -1.0], p=[0.3, 0.3, 0.3, 0.1], size=blank.sum())
    if rng.uniform() < 0.2:
        r.P -= 2.0 * np.eye(shape.n) * (1.0 + np.abs(r.P).sum())
    return r


@structure(FULL, with_rows)
def zero_rows_of_A(rng: Rng, shape: Shape) -> Program:
    """Rows 0 x = b with b zero, now and then not."""
    r = integer_program(rng, shape)
    blank = _blanked(rng, shape.p)
    r.A[blank] = 0.0
    r.b[blank] = rng.choice([0.0, 1.0], p=[0.9, 0.1], size=blank.sum())
    return r


@structure(FULL)
def zero_rows_of_P(rng: Rng, shape: Shape) -> Program:
    """Variables without curvature beside others that have it."""
    r = integer_program(rng, shape)
    blank = _blanked(rng, shape.n)
    r.P[blank], r.P[:, blank] = 0.0, 0.0
    return r


@structure(FULL, with_rows)
def redundant(rng: Rng, shape: Shape) -> Program:
    """Rows that are sums of others, with the sum of their limits."""
    r = integer_program(rng, shape)
    mix, weights = integers(rng, shape.p, shape.p), np.abs(integers(rng, shape.m, shape.m, largest=2))
    some = rng.uniform(size=shape.m) < 0.5
    r.G[some], r.h[some] = (weights @ r.G)[some], (weights @ r.h)[some]
    some = rng.uniform(size=shape.p) < 0.5
    r.A[some], r.b[some] = (mix @ r.A)[some], (mix @ r.b)[some]
    return r


@structure(FULL, with_rows)
def duplicates(rng: Rng, shape: Shape) -> Program:
    """The same row several times, multiples of it, and bounds written as rows."""
    r = integer_program(rng, shape)
    take, factor = rng.integers(0, shape.m, size=shape.m), rng.choice([1.0, 2.0, 3.0], size=shape.m)
    r.G, r.h = factor[:, None] * r.G[take], factor * r.h[take]
    j = int(rng.integers(shape.n))
    r.G[0] = np.eye(shape.n)[j]
    r.h[0] = r.ub[j] if np.isfinite(r.ub[j]) else 3.0
    take = rng.integers(0, shape.p, size=shape.p)
    r.A, r.b = r.A[take], r.b[take]
    return r


@structure(FULL)
def linear(rng: Rng, shape: Shape) -> Program:
    """P = 0."""
    return integer_program(rng, shape, rank=0)


@structure(FULL, _transport)
def transport(rng: Rng, shape: Shape) -> Program:
    """Supplies G x <= h, demands A x = b, x >= 0: degenerate when sums of them agree."""
    sources, sinks = shape.m, shape.p
    G, A = np.kron(np.eye(sources), np.ones((1, sinks))), np.kron(np.ones((1, sources)), np.eye(sinks))
    supply = rng.integers(0, 5, size=sources).astype(float)
    demand = rng.integers(0, 4, size=sinks).astype(float)
    P = rng.choice([0.0, 0.0, 1.0]) * np.diag(rng.integers(0, 2, size=shape.n).astype(float))
    lb, ub = np.zeros(shape.n), np.where(rng.uniform(size=shape.n) < 0.3, 2.0, np.inf)
    return Program(P, integers(rng, shape.n, largest=5), G, supply, A, demand, lb, ub)


@structure(FULL, _tall)
def tall(rng: Rng, shape: Shape) -> Program:
    """Many more rows than variables."""
    return integer_program(rng, shape)


@structure(FULL)
def fixed(rng: Rng, shape: Shape) -> Program:
    """Some or all variables with lb = ub."""
    r = integer_program(rng, shape)
    x = integers(rng, shape.n, largest=4, density=1.0)
    some = _blanked(rng, shape.n)
    if rng.uniform() < 0.7:  # consistent with the rows
        r.b, r.h = r.A @ x, r.G @ x + rng.integers(0, 3, size=shape.m)
    r.lb = np.where(some, x, np.minimum(r.lb, x))
    r.ub = np.where(some, x, np.maximum(r.ub, x))
    return r


@structure(FULL, _over)
def over_determined(rng: Rng, shape: Shape) -> Program:
    """More equalities than variables, most of them consistent."""
    return integer_program(rng, shape)


@structure(FULL)
def face(rng: Rng, shape: Shape) -> Program:
    """P singular and q such that a whole face is optimal."""
    rank = int(rng.integers(0, shape.n))
    r = integer_program(rng, shape, rank=rank, feasible=1.0, bounded=1.0)
    if rng.uniform() < 0.3:
        r.q = r.P @ integers(rng, shape.n)
    return r


@structure(FULL)
def nonconvex(rng: Rng, shape: Shape) -> Program:
    """P with a negative direction, of any size, bounded or not."""
    r = integer_program(rng, shape)
    d = integers(rng, shape.n, largest=2, density=1.0)
    r.P -= rng.choice([1.0, 2.0, 5.0]) * np.multiply.outer(d, d)
    return r


@structure(FULL)
def unbounded(rng: Rng, shape: Shape) -> Program:
    """Most fall along an integer ray that rows and bounds allow."""
    r = integer_program(rng, shape)
    ray = integers(rng, shape.n, largest=2, density=1.0)
    length = ray @ ray
    for rows in (r.A, r.G):  # rows made orthogonal to the ray, or falling along it, still integers
        along = rows @ ray
        rows[:] = length * rows - np.multiply.outer(along, ray)
    r.G -= np.multiply.outer(rng.integers(0, 2, size=shape.m), ray)
    root = integers(rng, shape.n, max(shape.n - 1, 0))
    root = length * root - np.multiply.outer(ray, ray @ root)
    r.P = root @ root.T
    r.lb[ray < 0], r.ub[ray > 0] = -np.inf, np.inf
    r.q = integers(rng, shape.n) - ray
    return r


@structure(FULL, _tall)
def degenerate(rng: Rng, shape: Shape) -> Program:
    """A vertex through which many more rows go than there are variables."""
    x = integers(rng, shape.n, largest=4, density=1.0)
    P, G, A = curvature(rng, shape.n), integers(rng, shape.m, shape.n), integers(rng, shape.p, shape.n)
    h = G @ x + np.where(rng.uniform(size=shape.m) < 0.8, 0, 1)
    lb, ub = bounds(rng, x)
    return Program(P, stationary(rng, P, G, A, h - G @ x, x), G, h, A, A @ x, lb, ub)


@structure(FULL)
def zero_objective(rng: Rng, shape: Shape) -> Program:
    """P = 0 and q = 0: any feasible point."""
    r = integer_program(rng, shape, rank=0)
    r.q[:] = 0.0
    return r


@structure(FULL, _no_rows)
def box(rng: Rng, shape: Shape) -> Program:
    """Bounds alone, P of any rank."""
    return integer_program(rng, shape)


@structure(FULL, with_rows)
def absent_rows(rng: Rng, shape: Shape) -> Program:
    """Some limits infinite."""
    r = integer_program(rng, shape)
    r.h[_blanked(rng, shape.m)] = np.inf
    return r
