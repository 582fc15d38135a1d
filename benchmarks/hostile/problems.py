"""The problem of a seed and an index, built around a feasible point that for most of them is the solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.hostile.kinds import Kind, Shape, shape_of, wishes_for
from benchmarks.hostile.rows import Array, Rng, equalities, inequalities, magnitudes, row_products

FIELDS = ("P", "q", "G", "h", "A", "b", "lb", "ub")

# Without constraints, rounding leaves a residual of about 1e-16 |q| times the condition of P.
LARGEST_CONDITION_WITHOUT_BOX = 1e5


@dataclass(frozen=True)
class Point:
    """A point and multipliers of its constraints."""

    x: Array
    y: Array
    z: Array
    z_box: Array


@dataclass(frozen=True)
class Problem:
    """One quadratic program; absent constraints have no rows, absent bounds are infinite."""

    seed: int
    index: int
    kinds: frozenset[Kind]
    P: Array
    q: Array
    G: Array
    h: Array
    A: Array
    b: Array
    lb: Array
    ub: Array
    built_around: Point  # feasible; without Kind.FREE_Q it solves the problem, to rounding

    @property
    def shape(self) -> Shape:
        """Its sizes."""
        return Shape(self.q.size, self.h.size, self.b.size)

    def given(self) -> tuple[str, ...]:
        """The fields that are there."""
        sizes = {"G": self.h.size, "h": self.h.size, "A": self.b.size, "b": self.b.size}
        boxed = np.isfinite(self.lb).any() or np.isfinite(self.ub).any()
        return tuple(name for name in FIELDS if sizes.get(name, boxed if name in ("lb", "ub") else True))


def make_problem(seed: int, index: int) -> Problem:
    """Always the same for the same two numbers."""
    shape = shape_of(seed, index)
    rng = np.random.default_rng([seed, 1, index])
    wishes = wishes_for(shape, rng)
    n, free = shape.n, Kind.FREE_Q in wishes
    P, unit, condition = hessian(rng, wishes, n)
    closed = free and condition > LARGEST_CONDITION_WITHOUT_BOX
    if not free and rng.uniform() < 0.5:
        unit = np.ones(n)
    x = rng.normal(size=n) * unit * magnitudes(rng, 1, -1, 1)

    G_rows = inequalities(rng, wishes, n, shape.m, shape.p)
    A_rows = equalities(rng, wishes, n, shape.p)
    lb, ub, z_box = box(rng, wishes, x, unit, n - shape.p, closed)
    G, A = G_rows.matrix(), A_rows.matrix()
    size = 1e4 if Kind.HUGE_Q in wishes else 1.0
    point = Point(x, size * A_rows.multipliers(), size * G_rows.multipliers(), size * z_box)
    q = linear_term(rng, wishes, n) if free else stationary(P, G, A, point)
    kinds = wishes & {
        Kind.FREE_Q, Kind.ILL_CONDITIONED, Kind.ILL_DIAGONAL, Kind.SCALED_P,
        Kind.HUGE_Q, Kind.TINY_Q, Kind.ZERO_Q,
    }  # fmt: skip
    kinds |= shape.kinds() | G_rows.kinds | A_rows.kinds | box_kinds(wishes, lb, ub)
    if not free:
        kinds |= active_kinds(shape, G_rows.slack == 0.0, point.z, (lb == x) | (ub == x), z_box)
    fields = (P, q, G, G_rows.limits(x), A, row_products(A, x), lb, ub)
    return Problem(seed, index, frozenset(kinds), *fields, point)


def hessian(rng: Rng, wishes: set[Kind], n: int) -> tuple[Array, Array, float]:
    """P, the size that suits each variable, and a bound of the condition of P."""
    ill = bool(wishes & {Kind.ILL_CONDITIONED, Kind.ILL_DIAGONAL})
    exponent = rng.uniform(4, 12) if ill else rng.uniform(0, 2)
    values = magnitudes(rng, n, -exponent, 0)
    values[-1], values[0] = 1.0, 10.0**-exponent if n > 1 else 1.0
    Q = np.eye(n)
    if Kind.ILL_DIAGONAL not in wishes:
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    D = magnitudes(rng, n, -3, 3) if Kind.SCALED_P in wishes else np.ones(n)
    P = magnitudes(rng, 1, -2, 2) * D[:, None] * ((Q * values) @ Q.T) * D
    spread = float(D.max() / D.min()) ** 2
    return (P + P.T) / 2, 1.0 / D, 10.0**exponent * spread


def linear_term(rng: Rng, wishes: set[Kind], n: int) -> Array:
    """q for a solution that nobody knows."""
    sizes = {Kind.HUGE_Q: 1e4, Kind.TINY_Q: 1e-6, Kind.ZERO_Q: 0.0}
    size = next((size for kind, size in sizes.items() if kind in wishes), 1.0)
    return size * rng.normal(size=n)


def stationary(P: Array, G: Array, A: Array, point: Point) -> Array:
    """q that makes the point a solution; rounded once, at the end."""
    total = -point.z_box.astype(np.longdouble)
    for matrix, vector in ((P, point.x), (A.T, point.y), (G.T, point.z)):
        total -= matrix.astype(np.longdouble) @ vector.astype(np.longdouble)
    return total.astype(np.float64)


def box(
    rng: Rng, wishes: set[Kind], x: Array, unit: Array, freedom: int, closed: bool
) -> tuple[Array, Array, Array]:
    """lb, ub and multipliers of the bounds that x sits on; closed: no bound is infinite."""
    n = x.size
    tight, fixed = Kind.TIGHT in wishes, np.zeros(n, dtype=bool)
    if not (closed or wishes & {Kind.FIXED, Kind.TIGHT, Kind.HALF_OPEN} or rng.uniform() < 0.3):
        return np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n)
    if Kind.FIXED in wishes:
        fixed[rng.permutation(n)[: int(rng.integers(1, max(2, n // 2)))]] = True
    share = rng.uniform(0.7, 1.0) if tight else rng.uniform(0.0, 0.5) * freedom / n
    share = 1.0 if Kind.ALL_ACTIVE in wishes else 0.0 if Kind.NONE_ACTIVE in wishes else share
    side = np.where(rng.uniform(size=n) < share, rng.choice([-1.0, 1.0], size=n), 0.0)
    side[fixed] = rng.choice([-1.0, 1.0], size=fixed.sum())
    width = unit * magnitudes(rng, 1, -1, 1) * (1e-3 if tight else 1.0)
    lb = np.where((side < 0) | fixed, x, x - width * rng.uniform(0.5, 1.5, size=n))
    ub = np.where((side > 0) | fixed, x, x + width * rng.uniform(0.5, 1.5, size=n))
    if Kind.HALF_OPEN in wishes and not closed:
        lb[(side == 0) & (rng.uniform(size=n) < 0.5) | (side > 0) & ~fixed] = -np.inf
        ub[(side == 0) & (rng.uniform(size=n) < 0.5) | (side < 0) & ~fixed] = np.inf
    weak = (Kind.WEAK in wishes) & (rng.uniform(size=n) < 0.5)
    return lb, ub, np.where(weak, 0.0, side * magnitudes(rng, n, -2, 1))


def box_kinds(wishes: set[Kind], lb: Array, ub: Array) -> set[Kind]:
    """What is hostile about the bounds."""
    finite = np.isfinite(np.concatenate([lb, ub]))
    found = {
        Kind.FIXED: bool((lb == ub).any()),
        Kind.TIGHT: Kind.TIGHT in wishes,
        Kind.HALF_OPEN: bool(finite.any() and not finite.all()),
    }
    return {kind for kind, holds in found.items() if holds}


def active_kinds(shape: Shape, touching: Array, z: Array, on_bound: Array, z_box: Array) -> set[Kind]:
    """What is hostile about the active set of the solution that the problem was built around."""
    count = int(touching.sum() + on_bound.sum())
    weak = (touching & (z == 0.0)).any() or (on_bound & (z_box == 0.0)).any()
    found = {
        Kind.VERTEX: shape.p + count > shape.n,
        Kind.ALL_ACTIVE: shape.m > 0 and bool(touching.all()),
        Kind.NONE_ACTIVE: count == 0,
        Kind.WEAK: bool(weak),
    }
    return {kind for kind, holds in found.items() if holds}
