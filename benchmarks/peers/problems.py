"""Batches of quadratic programs, and the generators that make them.

minimise 1/2 x'Px + q'x   subject to   G x <= h,  A x = b
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.load_data import NEXT_HOURS, daily_windows, scale_demand
from experiments.synthetic_load import synthetic_load

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
FIELDS = ("P", "q", "G", "h", "A", "b")
DIMENSIONS = {"P": 2, "q": 1, "G": 2, "h": 1, "A": 2, "b": 1}  # of one instance
ALL_OWN: frozenset[str] = frozenset()
MATRICES = frozenset("PGA")
RAMP_LIMIT = 5.0  # binds on most days of a load that is scaled to [0, 100]
YEARS_OF_LOAD = 12  # more than 4096 days


@dataclass(frozen=True)
class Problem:
    """One QP, or a batch of them: then every field has a leading batch dimension, or none if it is shared."""

    P: Array
    q: Array  # in a batch, every instance has its own
    G: Array
    h: Array
    A: Array
    b: Array
    x_bar: Array  # the cotangent of x, in the shape of q

    @property
    def single(self) -> bool:
        """Whether this is one instance, without a batch dimension."""
        return self.q.ndim == 1

    @property
    def batch(self) -> int:
        """How many instances there are."""
        return 1 if self.single else len(self.q)

    @property
    def n(self) -> int:
        """Variables."""
        return int(self.q.shape[-1])

    @property
    def m(self) -> int:
        """Inequalities."""
        return int(self.h.shape[-1])

    @property
    def p(self) -> int:
        """Equalities."""
        return int(self.b.shape[-1])

    def is_shared(self, name: str) -> bool:
        """Whether all the instances of a batch use one array for this field."""
        array: Array = getattr(self, name)
        return not self.single and array.ndim == DIMENSIONS[name]

    def instance(self, name: str, k: int) -> Array:
        """The field of instance k."""
        array: Array = getattr(self, name)
        return array if self.single or self.is_shared(name) else array[k]

    def save(self, folder: Path) -> None:
        """One file a field."""
        for field in fields(self):
            np.save(folder / f"{field.name}.npy", getattr(self, field.name))

    @staticmethod
    def load(folder: Path) -> Problem:
        """What `save` wrote."""
        return Problem(*(np.load(folder / f"{field.name}.npy") for field in fields(Problem)))


def _product(matrix: Array, vector: Array) -> Array:
    return np.asarray((matrix @ vector[..., None])[..., 0])


def random_problem(n: int, m: int, p: int, batch: int | None, shared: frozenset[str], seed: int) -> Problem:
    """P = LL'/n + 0.1 I; L, A, G, q ~ N(0, 1); b = A x0 and h = G x0 + U(0, 1) with x0 ~ N(0, 1).

    Where b and h are not shared, each instance has an x0 of its own; `batch` None is one instance.
    """
    rng = np.random.default_rng(seed)
    every = () if batch is None else (batch,)
    of = {name: () if name in shared else every for name in FIELDS}
    L = rng.normal(size=(*of["P"], n, n))
    P = L @ L.swapaxes(-1, -2)
    P /= n
    P[..., np.arange(n), np.arange(n)] += 0.1
    G, A = rng.normal(size=(*of["G"], m, n)), rng.normal(size=(*of["A"], p, n))
    x0 = rng.normal(size=(*of["h"], n))
    h = _product(G, x0) + rng.uniform(size=(*of["h"], m))
    q, x_bar = rng.normal(size=(*every, n)), rng.normal(size=(*every, n))
    return Problem(P, q, G, h, A, _product(A, x0), x_bar)


def paper_problem(n: int, m: int, p: int, seed: int) -> Problem:
    """The paper's table 1: P = R'R with R n x n, and q, G, h, A, b: all N(0, 1).

    Feasible with probability 1 because m + p <= n: all rows at once can be met with equality.
    """
    if m + p > n:
        raise ValueError(f"m + p = {m + p} rows may have no common solution in n = {n} variables")
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(n, n))
    G, A = rng.normal(size=(m, n)), rng.normal(size=(p, n))
    q, h, b, x_bar = (rng.normal(size=size) for size in (n, m, p, n))
    return Problem(R.T @ R, q, G, h, A, b, x_bar)


def energy_problem(batch: int, seed: int) -> Problem:
    """Energy scheduling (paper, section 5.2): min |x - load|^2 with |x[t+1] - x[t]| <= r, a day an instance.

    24 variables, 46 rows; P = 2I, G and h are shared, q = -2 load. The days are drawn from 12 years of
    generated load.
    """
    rng = np.random.default_rng(seed)
    load = synthetic_load(seed, YEARS_OF_LOAD)
    days = load.size // NEXT_HOURS
    demand = daily_windows(scale_demand(load, load.size), 3, days).demand
    chosen = demand[rng.choice(len(demand), size=batch, replace=False)]
    steps = np.diff(np.eye(NEXT_HOURS), axis=0)
    G = np.concatenate([steps, -steps])
    return Problem(
        P=2.0 * np.eye(NEXT_HOURS),
        q=-2.0 * chosen,
        G=G,
        h=np.full(len(G), RAMP_LIMIT),
        A=np.zeros((0, NEXT_HOURS)),
        b=np.zeros(0),
        x_bar=rng.normal(size=chosen.shape),
    )
