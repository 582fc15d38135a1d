"""Random rows with a budget, and how far x is from solving one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

KINDS = ("sparsemax", "softmax")
SHARES = ("own", "cap", "plain")


class Row(NamedTuple):
    """The arguments of `sparsemax` and `softmax`."""

    y: Any
    upper: Any
    lower: Any
    total: Any


def random_row(generator: np.random.Generator, limits: str = "own", scale: float = 1.0, n: int = 0) -> Row:
    """A row that has a solution: limits of each entry's own, one cap, or none."""
    n = n or int(generator.integers(1, 40))
    y = scale * generator.normal(size=n)
    if limits == "plain":
        return Row(y, None, 0.0, float(generator.uniform(0.1, 3)))
    if limits == "cap":
        return Row(y, float(generator.uniform(1.01, 3) / n), 0.0, 1.0)
    lower = generator.uniform(size=n) * generator.integers(0, 2, size=n) / n
    upper = lower + generator.uniform(0.05, 2, size=n) / n
    share = generator.uniform(0.02, 0.98)
    return Row(y, upper, lower, float((1 - share) * lower.sum() + share * upper.sum()))


def kkt_error(kind: str, row: Row, x: Any) -> float:
    """The largest violation of the conditions of optimality, in units of x."""
    y, total = np.asarray(row.y), row.total
    lower = np.broadcast_to(row.lower, y.shape)
    upper = np.broadcast_to(np.inf if row.upper is None else row.upper, y.shape)
    with np.errstate(divide="ignore", over="ignore"):
        level = y - (np.log(x) if kind == "softmax" else x)
        free = (x > lower) & (x < upper)
        if free.any():
            tau = level[np.argmax(np.where(free, x, -np.inf))]
        else:  # anything between what holds the entries at their limits
            can_move = (lower < upper) & (y > -np.inf)
            least = np.max(level[can_move & (x <= lower)], initial=-np.inf)
            most = np.min(level[can_move & (x >= upper)], initial=np.inf)
            assert least <= most + 1e-9 * max(1.0, abs(most))
            tau = max(least, -1e300) if np.isfinite(least) or not np.isfinite(most) else most
        value = np.exp(y - tau) if kind == "softmax" else y - tau
    return float(max(np.abs(np.clip(value, lower, upper) - x).max(), abs(x.sum() - total)))
