"""The terms of a smooth objective, written again in long double."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from altdiff import Linear, LogSumExp, Quadratic, Separable

if TYPE_CHECKING:
    from altdiff import Objective

KINDS = ("square", "entropy", "-log", "softplus", "exp", "pseudo-huber", "power", "binary entropy")
ENDS = {"entropy": (0.0, np.inf), "-log": (0.0, np.inf), "binary entropy": (0.0, 1.0)}
Array: TypeAlias = Any  # long doubles have no precise types
wide = np.longdouble


@dataclass
class Term:
    """One summand: what it is, and its numbers."""

    kind: str
    numbers: dict[str, Array]
    exponent: float | None = None

    def build(self) -> Objective:
        """As altdiff takes it."""
        if self.kind == "linear":
            return Linear(**self.numbers)
        if self.kind == "quadratic":
            return Quadratic(**self.numbers)
        if self.kind == "log-sum-exp":
            return LogSumExp(**self.numbers)
        return Separable(self.kind, exponent=self.exponent, **self.numbers)

    def rows(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """M, t = M x - o, its rounding in double precision, and the weights."""
        n = x.size
        M = self.numbers.get("M", np.eye(n)).astype(wide)
        o = np.broadcast_to(self.numbers.get("offset", 0.0), len(M)).astype(wide)
        rounding = 1.2e-12 * (abs(M) @ abs(x) + abs(o))
        weight = np.broadcast_to(self.numbers.get("weight", 1.0), len(M)).astype(wide)
        return M, M @ x - o, rounding, weight

    def value(self, x: Array) -> Any:
        """f, infinite outside its domain."""
        if self.kind == "linear":
            return self.numbers["q"].astype(wide) @ x
        if self.kind == "quadratic":
            P, q = self.numbers["P"].astype(wide), self.numbers.get("q", np.zeros(x.size)).astype(wide)
            return x @ P @ x / 2 + q @ x
        _, t, rounding, w = self.rows(x)
        if self.kind == "log-sum-exp":
            return w[0] * (t.max() + np.log(np.exp(t - t.max()).sum()))
        inside = w > 0
        lower, upper = ENDS.get(self.kind, (-np.inf, np.inf))
        slack = rounding[inside]
        if not np.all((t[inside] >= lower - slack) & (t[inside] <= upper + slack)):
            return wide(np.inf)
        return (
            w[inside] * phi(self.kind, np.clip(t[inside], lower + wide(1e-300), upper), self.exponent)
        ).sum()

    def slopes(self, x: Array) -> tuple[Array, Array, Array]:
        """The gradient is M'(a number for each row between two limits): M', and these."""
        if self.kind == "linear":
            return self.numbers["q"].astype(wide)[:, None], np.ones(1, wide), np.ones(1, wide)
        if self.kind == "quadratic":
            P, q = self.numbers["P"].astype(wide), self.numbers.get("q", np.zeros(x.size)).astype(wide)
            return np.column_stack([P * x, q]), np.ones(x.size + 1, wide), np.ones(x.size + 1, wide)
        M, t, rounding, w = self.rows(x)
        if self.kind == "log-sum-exp":
            s = w[0] * np.exp(t - t.max()) / np.exp(t - t.max()).sum()
            return M.T, s, s
        lower, upper = ENDS.get(self.kind, (-np.inf, np.inf))
        ends = [np.clip(t + side * rounding, lower, upper) for side in (-1, 1)]
        low, high = (slope(self.kind, t, self.exponent) for t in ends)
        counts = (w > 0) & (abs(M).max(axis=1) > 0)
        return M.T[:, counts], (w * low)[counts], (w * high)[counts]


def phi(kind: str, t: Array, p: float | None) -> Array:
    """The function of one number."""
    with np.errstate(all="ignore"):
        if kind == "square":
            return t * t / 2
        if kind == "entropy":
            return np.where(t > 0, t * np.log(t), 0)
        if kind == "-log":
            return -np.log(t)
        if kind == "softplus":
            return np.logaddexp(t, 0)
        if kind == "exp":
            return np.exp(t)
        if kind == "pseudo-huber":
            return t * t / (np.sqrt(1 + t * t) + 1)
        if kind == "power":
            return abs(t) ** wide(p)
        return np.where(t > 0, t * np.log(t), 0) + np.where(t < 1, (1 - t) * np.log1p(-t), 0)


def slope(kind: str, t: Array, p: float | None) -> Array:
    """Its derivative."""
    with np.errstate(all="ignore"):
        if kind == "square":
            return t
        if kind == "entropy":
            return np.log(t) + 1
        if kind == "-log":
            return -1 / t
        if kind == "softplus":
            return np.where(t > 0, 1 / (1 + np.exp(-abs(t))), np.exp(-abs(t)) / (1 + np.exp(-abs(t))))
        if kind == "exp":
            return np.exp(t)
        if kind == "pseudo-huber":
            return t / np.sqrt(1 + t * t)
        if kind == "power":
            return wide(p) * abs(t) ** (wide(p) - 1) * np.sign(t)
        return np.log(t) - np.log1p(-t)
