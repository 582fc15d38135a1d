"""From limits on both sides, l <= A x <= u, to equalities and one-sided rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array, vstack

if TYPE_CHECKING:
    from altdiff._arrays import Array, Block

# What the formats call infinity is 1e20; many files hold it with rounding errors, on either side.
INFINITE = 9e19


@dataclass(frozen=True, eq=False)
class TwoSided:
    """minimise 1/2 x'Px + q'x   subject to   l <= A x <= u,  lb <= x <= ub."""

    P: Block
    q: Array
    A: Block
    l: Array  # noqa: E741 - the name that the files use
    u: Array
    lb: Array
    ub: Array

    def fields(self) -> dict[str, Any]:
        """The eight fields: rows with l = u are equalities, upper limits come before lower ones in G."""
        lower, upper = with_infinities(self.l), with_infinities(self.u)
        _require_one_sided("l", lower, -np.inf)
        _require_one_sided("u", upper, np.inf)
        equal = lower == upper
        above = np.flatnonzero(~equal & (upper < np.inf))
        below = np.flatnonzero(~equal & (lower > -np.inf))
        rows = self.A.tocsr()
        G = vstack([rows[above], -rows[below]]) if above.size + below.size else None
        return {
            "P": self.P,
            "q": self.q,
            "G": None if G is None else csc_array(G),
            "h": None if G is None else np.concatenate([upper[above], -lower[below]]),
            "A": csc_array(rows[np.flatnonzero(equal)]) if equal.any() else None,
            "b": lower[equal] if equal.any() else None,
            "lb": _unless_all(-np.inf, with_infinities(self.lb)),
            "ub": _unless_all(np.inf, with_infinities(self.ub)),
        }


def with_infinities(limits: Array) -> Array:
    """`limits` with what a file means by infinity as infinity."""
    return np.where(np.abs(limits) >= INFINITE, np.copysign(np.inf, limits), limits)


def _require_one_sided(name: str, limits: Array, absent: float) -> None:
    wrong = np.isnan(limits) | (limits == -absent)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name}[{row}] is {limits[row]:g}: it must be a number, or {absent:+g} for no limit"
        )


def _unless_all(absent: float, bounds: Array) -> Array | None:
    return None if (bounds == absent).all() else bounds
