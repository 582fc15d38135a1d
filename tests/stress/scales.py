"""Structures whose numbers are of unlike sizes, or of a size that nobody expects."""

from __future__ import annotations

import numpy as np

from tests.stress.blocks import curvature, integer_program, integers, power_of_two, scaled, with_rows
from tests.stress.programs import Array, Program, Rng, Shape
from tests.stress.structures import CERTIFICATES, NEVER, structure


def _ones(shape: Shape) -> tuple[Array, Array, Array, Array]:
    return np.ones(()), np.ones(shape.m), np.ones(shape.p), np.ones(shape.n)


@structure(CERTIFICATES, with_rows)
def barely_inconsistent(rng: Rng, shape: Shape) -> Program:
    """Two equalities with the same left side whose right sides differ by 1e-3 to 1e-9, or by nothing."""
    r = integer_program(rng, shape, feasible=1.0, bounded=1.0)
    row = integers(rng, shape.n, density=1.0)
    row[0] = row[0] or 1.0
    gap = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-9, -3) * (rng.uniform() < 0.9)
    value = float(row @ integers(rng, shape.n, largest=2))
    factor = rng.choice([1.0, -2.0, 3.0])
    r.A = np.vstack([r.A, row, factor * row])
    r.b = np.concatenate([r.b, [value, factor * (value + gap)]])
    return r


@structure(CERTIFICATES)
def barely_infeasible(rng: Rng, shape: Shape) -> Program:
    """a x <= c and a x >= c + gap, gap of 1e-3 to 1e-9 of either sign: no point, or a thin slab."""
    r = integer_program(rng, shape, feasible=1.0, bounded=1.0)
    row = integers(rng, shape.n, density=1.0)
    row[0] = row[0] or 1.0
    gap = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-9, -3)
    value = float(row @ integers(rng, shape.n, largest=2))
    factor = rng.choice([1.0, 2.0, 5.0])
    r.G = np.vstack([r.G, row, -factor * row])
    r.h = np.concatenate([r.h, [value, -factor * (value + gap)]])
    return r


@structure(CERTIFICATES, with_rows)
def scaled_rows(rng: Rng, shape: Shape) -> Program:
    """Each row in units of its own, 1e-6 to 1e6."""
    objective, _, _, columns = _ones(shape)
    r = integer_program(rng, shape)
    rows, equalities = power_of_two(rng, 6, shape.m), power_of_two(rng, 6, shape.p)
    return scaled(r, objective, rows, equalities, columns)


@structure(CERTIFICATES)
def scaled_columns(rng: Rng, shape: Shape) -> Program:
    """Each variable in units of its own, 1e-6 to 1e6."""
    objective, rows, equalities, _ = _ones(shape)
    return scaled(integer_program(rng, shape), objective, rows, equalities, power_of_two(rng, 6, shape.n))


@structure(CERTIFICATES)
def scaled_objective(rng: Rng, shape: Shape) -> Program:
    """The objective times 1e-12 to 1e12."""
    _, rows, equalities, columns = _ones(shape)
    return scaled(integer_program(rng, shape), power_of_two(rng, 12), rows, equalities, columns)


@structure(CERTIFICATES)
def scaled_all(rng: Rng, shape: Shape) -> Program:
    """Objective (1e-12 to 1e12), rows (1e-4 to 1e4) and columns (1e-2 to 1e2) in odd units at once."""
    rows, equalities = power_of_two(rng, 4, shape.m), power_of_two(rng, 4, shape.p)
    r = integer_program(rng, shape)
    return scaled(r, power_of_two(rng, 12), rows, equalities, power_of_two(rng, 2, shape.n))


@structure(CERTIFICATES)
def everything_scaled(rng: Rng, shape: Shape) -> Program:
    """Objective and rows times the same 1e-12 to 1e12; bounds stay."""
    r = integer_program(rng, shape)
    c = float(power_of_two(rng, 12))
    return Program(c * r.P, c * r.q, c * r.G, c * r.h, c * r.A, c * r.b, r.lb, r.ub)


@structure(NEVER, counts=False)
def denormal(rng: Rng, shape: Shape) -> Program:
    """Some fields, or some entries of every field, times 1e-300 to 1e-320."""
    r = integer_program(rng, shape)
    whole = rng.uniform() < 0.5
    for name in ("P", "q", "G", "h", "A", "b"):
        value = getattr(r, name)
        tiny = 10.0 ** rng.integers(-320, -299)
        small = rng.uniform() < 0.5 if whole else rng.uniform(size=value.shape) < 0.3
        setattr(r, name, np.where(small, value * tiny, value))
    r.P = np.triu(r.P) + np.triu(r.P, 1).T
    r.P *= 1.0 if whole else np.outer(r.P.diagonal() > 0, r.P.diagonal() > 0)
    return r


def _far(rng: Rng, r: Program) -> Program:
    """Bounds of 1e10 to 1e12 in the place of most of those that there are."""
    far = np.round(10.0 ** rng.uniform(10, 12, size=r.q.size))
    some = rng.uniform(size=r.q.size) < 0.7
    below, above = np.where(some, -far, r.lb), np.where(rng.uniform(size=r.q.size) < 0.7, far, r.ub)
    r.lb, r.ub = below, above
    return r


@structure(CERTIFICATES)
def huge_bounds(rng: Rng, shape: Shape) -> Program:
    """Bounds of 1e10 to 1e12 and P singular: the solution may lie that far out."""
    return _far(rng, integer_program(rng, shape, rank=int(rng.integers(0, shape.n))))


@structure(CERTIFICATES)
def huge_bounds_linear(rng: Rng, shape: Shape) -> Program:
    """Bounds of 1e10 to 1e12 and P = 0: the solution does lie that far out."""
    return _far(rng, integer_program(rng, shape, rank=0, bounded=0.3))


@structure(CERTIFICATES, with_rows)
def huge_limits(rng: Rng, shape: Shape) -> Program:
    """Limits of 1e10 to 1e20 on rows that never bind, beside others that do."""
    r = integer_program(rng, shape)
    some = rng.uniform(size=shape.m) < 0.5
    r.h = np.where(some, 10.0 ** rng.integers(10, 21, size=shape.m), r.h)
    return r


@structure(NEVER, with_rows)
def nearly_parallel(rng: Rng, shape: Shape) -> Program:
    """Pairs of rows that differ by 1e-4 to 1e-10 in one entry."""
    x = rng.normal(size=shape.n)
    P = curvature(rng, shape.n)
    row = rng.normal(size=shape.n)
    G = row + 10.0 ** rng.uniform(-10, -4, size=(shape.m, 1)) * rng.normal(size=(shape.m, shape.n))
    A = rng.normal(size=(shape.p, shape.n))
    if shape.p > 1:
        A[1] = A[0] + 10.0 ** rng.uniform(-10, -4) * rng.normal(size=shape.n)
    slack = np.where(rng.uniform(size=shape.m) < 0.5, 0.0, rng.uniform(size=shape.m))
    z, y = rng.exponential(size=shape.m) * (slack == 0), rng.normal(size=shape.p)
    free = np.full(shape.n, np.inf)
    return Program(P, -(P @ x + G.T @ z + A.T @ y), G, G @ x + slack, A, A @ x, -free, free)


@structure(NEVER)
def mixed(rng: Rng, shape: Shape) -> Program:
    """Every number with a size of its own, 1e-6 to 1e6; feasible and bounded by construction."""

    def wild(*size: int) -> Array:
        return np.asarray(rng.normal(size=size) * 10.0 ** rng.uniform(-6, 6, size=size))

    n, m, p = shape
    root, x = wild(n, int(rng.integers(0, n + 1))), rng.normal(size=n)
    P, G, A = root @ root.T, wild(m, n), wild(p, n)
    P = (P + P.T) / 2
    active = rng.uniform(size=m) < 0.4
    h = G @ x + np.where(active, 0.0, np.abs(wild(m)))
    lb = np.where(rng.uniform(size=n) < 0.5, x - np.abs(wild(n)), -np.inf)
    ub = np.where(rng.uniform(size=n) < 0.5, x + np.abs(wild(n)), np.inf)
    q = -(P @ x + G.T @ (active * np.abs(wild(m))) + A.T @ wild(p))
    return Program(P, q, G, h, A, A @ x, lb, ub)


@structure(NEVER)
def real(rng: Rng, shape: Shape) -> Program:
    """Normal numbers, all of them: the ordinary case, P of any rank."""
    n, m, p = shape
    root, x = rng.normal(size=(n, int(rng.integers(0, n + 1)))), rng.normal(size=n)
    G, A = rng.normal(size=(m, n)), rng.normal(size=(p, n))
    P = root @ root.T
    lb = np.where(rng.uniform(size=n) < 0.5, x - rng.exponential(size=n), -np.inf)
    ub = np.where(rng.uniform(size=n) < 0.5, x + rng.exponential(size=n), np.inf)
    return Program(P, rng.normal(size=n), G, G @ x + rng.exponential(size=m), A, A @ x, lb, ub)


@structure(NEVER)
def single_precision(rng: Rng, shape: Shape) -> Program:
    """float32 arrays, P = J J' of low rank rounded to that."""
    n, m, p = shape
    J = rng.normal(size=(n, int(rng.integers(1, n + 1)))).astype(np.float32)
    x = rng.normal(size=n).astype(np.float32)
    G, A = rng.normal(size=(m, n)).astype(np.float32), rng.normal(size=(p, n)).astype(np.float32)
    lb, ub = x - rng.exponential(size=n).astype(np.float32), x + np.float32(1.0)
    q = np.zeros(n, np.float32) if rng.uniform() < 0.3 else rng.normal(size=n).astype(np.float32)
    h = G @ x + rng.exponential(size=m).astype(np.float32)
    return Program(J @ J.T, q, G, h, A, A @ x, lb, ub)
