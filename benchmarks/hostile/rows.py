"""Rows of G and A that repeat, oppose, nearly repeat or say nothing, and all hold at a given point."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.hostile.kinds import Kind

Array = NDArray[np.float64]
Rng = np.random.Generator

# In this order: a copy of a row copies its slack, which an opposite row sets to zero.
DERIVED = (Kind.OPPOSITE, Kind.DUPLICATE, Kind.MULTIPLE, Kind.PARALLEL, Kind.ZERO_ROW, Kind.UNLIMITED)


@dataclass
class Rows:
    """Rows of length one (or zero), each with a factor; slack and multiplier are those of factor one."""

    units: Array
    factor: Array
    slack: Array
    z: Array
    kinds: set[Kind]

    def matrix(self) -> Array:
        """The rows as the problem has them."""
        return self.factor[:, None] * self.units

    def limits(self, x: Array) -> Array:
        """The right-hand sides that leave the slacks at x."""
        return row_products(self.matrix(), x) + self.factor * self.slack

    def multipliers(self) -> Array:
        """The multipliers as the problem has them."""
        return self.z / self.factor


def row_products(matrix: Array, x: Array) -> Array:
    """The products of the rows with x: equal rows get equal, and opposite rows opposite numbers."""
    return np.array([math.fsum(row * x) for row in matrix])


def inequalities(rng: Rng, wishes: set[Kind], n: int, m: int, p: int) -> Rows:
    """m rows of G, some made from others."""
    base, parts = allotted(rng, m, wishes)
    active = rng.permutation(base)[: active_count(rng, wishes, n, len(base), p)]
    slack = magnitudes(rng, m, -2, 1)
    slack[active] = 0.0
    factor = magnitudes(rng, m, -6, 6) if Kind.SCALED_ROWS in wishes else np.ones(m)
    rows = Rows(unit_rows(rng, m, n), factor, slack, np.zeros(m), set(parts))
    for kind, places in parts.items():
        derive(rows, kind, places, rng.choice(base, size=len(places)), rng, Kind.FREE_Q in wishes)
    if Kind.SCALED_ROWS in wishes and m:
        rows.kinds.add(Kind.SCALED_ROWS)
    touching = (rows.slack == 0.0) & rows.units.any(axis=1)
    weak = Kind.WEAK in wishes
    rows.z = np.where(touching & ~(weak & (rng.uniform(size=m) < 0.5)), magnitudes(rng, m, -2, 1), 0.0)
    return rows


def allotted(rng: Rng, m: int, wishes: set[Kind]) -> tuple[NDArray[np.int64], dict[Kind, NDArray[np.int64]]]:
    """Which rows are drawn, and which are made from them in what way; at least one is drawn."""
    rest = rng.permutation(m)
    parts: dict[Kind, NDArray[np.int64]] = {}
    for kind in DERIVED:
        if kind in wishes and len(rest) > 1:
            count = int(rng.integers(1, max(2, len(rest) // 3)))
            parts[kind], rest = rest[:count], rest[count:]
    return rest, parts


def active_count(rng: Rng, wishes: set[Kind], n: int, m: int, p: int) -> int:
    """How many of m rows touch the point."""
    if Kind.NONE_ACTIVE in wishes:
        return 0
    if Kind.ALL_ACTIVE in wishes:
        return m
    if Kind.VERTEX in wishes:
        return min(m, n - p + int(rng.integers(1, n + 2)))
    return int(rng.integers(0, min(m, n - p) + 1))


def derive(
    rows: Rows, kind: Kind, at: NDArray[np.int64], of: NDArray[np.int64], rng: Rng, mild: bool
) -> None:
    """Makes the rows `at` from the rows `of`; mild: none is nearly opposite to another."""
    units, factor, slack = rows.units, rows.factor, rows.slack
    if kind is Kind.UNLIMITED:
        slack[at] = np.inf
    elif kind is Kind.ZERO_ROW:
        units[at] = 0.0
        slack[at] *= rng.integers(0, 2, size=len(at))
    elif kind is Kind.PARALLEL:
        same = mild | (rng.uniform(size=len(at)) < 0.7)
        units[at] = np.where(same, 1.0, -1.0)[:, None] * nearly(rng, units[of])
        slack[at] = np.where(same, slack[of], slack[at] * (slack[of] > 0))
    else:
        units[at] = -units[of] if kind is Kind.OPPOSITE else units[of]
        factor[at] = factor[of] * (magnitudes(rng, len(at), -2, 2) if kind is Kind.MULTIPLE else 1.0)
        if kind is Kind.OPPOSITE:
            slack[of] = 0.0
        slack[at] = slack[of]


def equalities(rng: Rng, wishes: set[Kind], n: int, p: int) -> Rows:
    """p rows of A, of a rank that may be less."""
    units, kinds = unit_rows(rng, p, n), set[Kind]()
    factor = magnitudes(rng, p, -6, 6) if Kind.SCALED_ROWS in wishes else np.ones(p)
    if Kind.SCALED_ROWS in wishes and p:
        kinds.add(Kind.SCALED_ROWS)
    rest = rng.permutation(p)
    if Kind.PARALLEL_EQUALITIES in wishes and p > 1:
        place, rest = rest[0], rest[1:]
        units[place] = nearly(rng, units[rest[:1]])[0]
        kinds.add(Kind.PARALLEL_EQUALITIES)
    if Kind.REDUNDANT in wishes and len(rest) > 1:
        count = int(rng.integers(1, max(2, len(rest) // 2)))
        places, base = rest[:count], rest[count:]
        weights = rng.normal(size=(count, len(base)))
        copies = rng.uniform(size=count) < 0.5
        weights[copies] = np.eye(len(base))[rng.integers(0, len(base), size=copies.sum())]
        units[places] = unit(weights @ units[base])
        kinds.add(Kind.REDUNDANT)
    return Rows(units, factor, np.zeros(p), rng.normal(size=p), kinds)


def magnitudes(rng: Rng, count: int, low: float, high: float) -> Array:
    """Numbers between 10^low and 10^high whose logarithm is uniform."""
    return np.asarray(10.0 ** rng.uniform(low, high, size=count))


def unit_rows(rng: Rng, count: int, n: int) -> Array:
    """Rows of length one, in half of the cases sparse."""
    rows = rng.normal(size=(count, n))
    if rng.uniform() < 0.5:
        keep = rng.uniform(size=(count, n)) < 0.3
        keep[np.arange(count), rng.integers(0, n, size=count)] = True
        rows = np.where(keep, rows, 0.0)
    return unit(rows)


def unit(rows: Array) -> Array:
    """The same rows at length one."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def nearly(rng: Rng, rows: Array) -> Array:
    """Rows at an angle of 1e-7 .. 1e-4 to rows of length one."""
    other = rng.normal(size=rows.shape)
    other -= (other * rows).sum(axis=1, keepdims=True) * rows
    return unit(rows + magnitudes(rng, len(rows), -7, -4)[:, None] * unit(other))
