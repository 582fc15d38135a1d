"""What structures are made of: integer matrices, limits around a point, bounds.

Integers, and integers times powers of two, are exact in floating point, so that the truth about a program can
be decided by exact arithmetic.
"""

from __future__ import annotations

import numpy as np

from tests.stress.programs import Array, Program, Rng, Shape


def integers(rng: Rng, *size: int, largest: int = 3, density: float | None = None) -> Array:
    """Small integers, some of them zero."""
    share = rng.choice([0.4, 0.7, 1.0]) if density is None else density
    numbers = rng.integers(-largest, largest + 1, size=size)
    return np.asarray(numbers * (rng.uniform(size=size) < share), dtype=np.float64)


def curvature(rng: Rng, n: int, rank: int | None = None) -> Array:
    """P = B B' of some rank, integer."""
    root = integers(rng, n, int(rng.integers(0, n + 1)) if rank is None else rank)
    return np.asarray(root @ root.T)


def bounds(rng: Rng, x: Array, share: float = 0.5) -> tuple[Array, Array]:
    """Integer bounds on some variables, around an integer point."""
    below, above = rng.integers(0, 4, size=(2, x.size))
    lb = np.where(rng.uniform(size=x.size) < share, x - below, -np.inf)
    ub = np.where(rng.uniform(size=x.size) < share, x + above, np.inf)
    return lb, ub


def small_shape(rng: Rng) -> Shape:
    """Up to six variables."""
    n = int(rng.integers(1, 7))
    return Shape(n, int(rng.integers(0, 8)), int(rng.integers(0, n)))


def with_rows(rng: Rng) -> Shape:
    """At least one row of each sort."""
    n = int(rng.integers(2, 7))
    return Shape(n, int(rng.integers(1, 8)), int(rng.integers(1, n)))


def integer_program(
    rng: Rng, shape: Shape, rank: int | None = None, feasible: float = 0.8, bounded: float = 0.6
) -> Program:
    """The common case: integers throughout, feasible and bounded with the given probabilities.

    A program that is not made feasible or bounded may be so all the same.
    """
    n, m, p = shape
    x = integers(rng, n, largest=4, density=1.0)
    P, G, A = curvature(rng, n, rank), integers(rng, m, n), integers(rng, p, n)
    h, b = G @ x + rng.integers(0, 4, size=m), A @ x
    if rng.uniform() > feasible:
        h, b = integers(rng, m, largest=6), integers(rng, p, largest=6)
    lb, ub = bounds(rng, x)
    q = integers(rng, n, largest=6, density=1.0)
    if rng.uniform() < bounded:
        q = stationary(rng, P, G, A, h - G @ x, x)
    return Program(P, q, G, h, A, b, lb, ub)


def stationary(rng: Rng, P: Array, G: Array, A: Array, slack: Array, x: Array) -> Array:
    """A q for which x is a minimiser, with multipliers on the rows that touch it."""
    z = rng.integers(0, 4, size=slack.size) * (slack == 0)
    y = rng.integers(-3, 4, size=A.shape[0])
    return np.asarray(-(P @ x + G.T @ z + A.T @ y))


def power_of_two(rng: Rng, decades: float, *size: int) -> Array:
    """Powers of two between 10^-decades and 10^decades: they scale without rounding."""
    reach = int(decades * np.log2(10))
    return np.asarray(2.0 ** rng.integers(-reach, reach + 1, size=size))


def scaled(program: Program, objective: Array, rows: Array, equalities: Array, columns: Array) -> Program:
    """The same program in other units: x = columns x_new."""
    r = program
    P = objective * r.P * np.multiply.outer(columns, columns)
    return Program(
        P, objective * r.q * columns, rows[:, None] * r.G * columns, rows * r.h,
        equalities[:, None] * r.A * columns, equalities * r.b, r.lb / columns, r.ub / columns,
    )  # fmt: skip
