"""In which ways a problem is hostile; most have several."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

GROUP = 8  # so many consecutive problems have one shape, and can be solved as a batch


class Kind(Enum):
    """A way to be hostile, with its name in the tables."""

    DUPLICATE = "duplicate rows"
    MULTIPLE = "positive multiples of rows"
    OPPOSITE = "opposite rows that touch"
    PARALLEL = "nearly parallel rows"
    ZERO_ROW = "rows of zeros"
    UNLIMITED = "rows with h = inf"
    SCALED_ROWS = "rows scaled by 1e-6 .. 1e6"
    REDUNDANT = "redundant equalities"
    PARALLEL_EQUALITIES = "nearly parallel equalities"
    FIXED = "lb = ub"
    TIGHT = "tight box"
    HALF_OPEN = "some of lb, ub infinite"
    VERTEX = "more than n active"
    ALL_ACTIVE = "all active"
    NONE_ACTIVE = "none active"
    WEAK = "weakly active"
    ILL_CONDITIONED = "condition of P to 1e12"
    ILL_DIAGONAL = "same, P diagonal"
    SCALED_P = "P scaled by 1e-3 .. 1e3"
    HUGE_Q = "huge q"
    TINY_Q = "tiny q"
    ZERO_Q = "q = 0"
    FREE_Q = "q not built from a solution"
    ONE_VARIABLE = "n = 1"
    NO_ROWS = "m = 0"
    NO_EQUALITIES = "p = 0"
    MANY_ROWS = "m > n - p"


@dataclass(frozen=True)
class Shape:
    """Numbers of variables, inequalities and equalities."""

    n: int
    m: int
    p: int

    def kinds(self) -> set[Kind]:
        """What is hostile about the numbers alone."""
        found = {
            Kind.ONE_VARIABLE: self.n == 1,
            Kind.NO_ROWS: self.m == 0,
            Kind.NO_EQUALITIES: self.p == 0,
            Kind.MANY_ROWS: self.m > self.n - self.p,
        }
        return {kind for kind, holds in found.items() if holds}


def shape_of(seed: int, index: int) -> Shape:
    """The shape of a problem: n in 1..60, m up to 4 n, p below n."""
    rng = np.random.default_rng([seed, 0, index // GROUP])
    most = rng.choice([1, 8, 60], p=[0.04, 0.26, 0.7])
    n = int(rng.integers(1, most + 1))
    m = int(rng.integers(1, rng.choice([max(1, n // 2), 4 * n]) + 1)) if rng.uniform() < 0.92 else 0
    p = int(rng.integers(0, n)) if rng.uniform() < 0.65 else 0
    return Shape(n, m, p)


def wishes_for(shape: Shape, rng: np.random.Generator) -> set[Kind]:
    """What a problem of this shape shall be; the builders return what they could do."""
    chances = {
        Kind.DUPLICATE: 0.15, Kind.MULTIPLE: 0.15, Kind.OPPOSITE: 0.15, Kind.PARALLEL: 0.15,
        Kind.ZERO_ROW: 0.1, Kind.UNLIMITED: 0.1, Kind.SCALED_ROWS: 0.2,
        Kind.REDUNDANT: 0.3, Kind.PARALLEL_EQUALITIES: 0.1,
        Kind.FIXED: 0.12, Kind.TIGHT: 0.15, Kind.HALF_OPEN: 0.15,
        Kind.WEAK: 0.15, Kind.SCALED_P: 0.2,
    }  # fmt: skip
    wishes = {kind for kind, chance in chances.items() if rng.uniform() < chance}
    wishes |= one_of({Kind.ILL_CONDITIONED: 0.2, Kind.ILL_DIAGONAL: 0.12}, rng)
    wishes |= one_of({Kind.HUGE_Q: 0.15, Kind.TINY_Q: 0.08, Kind.ZERO_Q: 0.06}, rng)
    wishes |= one_of({Kind.VERTEX: 0.15, Kind.ALL_ACTIVE: 0.08, Kind.NONE_ACTIVE: 0.08}, rng)
    if wishes & {Kind.TINY_Q, Kind.ZERO_Q} or rng.uniform() < 0.25:
        # Which constraints are active is left to chance then, and where their multipliers may be as large as
        # 1e7 times q, rounding alone would spoil the residuals of any answer.
        wishes |= {Kind.FREE_Q}
        wishes -= {Kind.WEAK, Kind.PARALLEL_EQUALITIES}
        wishes -= {Kind.VERTEX, Kind.ALL_ACTIVE, Kind.NONE_ACTIVE}
    if Kind.NONE_ACTIVE in wishes:
        wishes -= {Kind.OPPOSITE, Kind.WEAK, Kind.FIXED, Kind.TIGHT}
    if shape.n == 1:
        wishes -= {Kind.PARALLEL, Kind.ILL_CONDITIONED, Kind.ILL_DIAGONAL}
    return wishes


def one_of(chances: dict[Kind, float], rng: np.random.Generator) -> set[Kind]:
    """At most one of these."""
    draw = rng.uniform()
    for kind, chance in chances.items():
        draw -= chance
        if draw < 0:
            return {kind}
    return set()
