"""Units do not matter: the objective, rows and variables in other units keep the status of a program."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status
from numpy.typing import NDArray

Array = NDArray[np.float64]
Data = dict[str, Any]
Rng = np.random.Generator

OBJECTIVE, ROWS, COLUMNS = 40, 13, 8  # powers of two, either way


def power_of_two(rng: Rng, reach: int, *size: int) -> Array:
    """Exact factors."""
    return np.asarray(2.0 ** rng.integers(-reach, reach + 1, size=size))


def solvable(rng: Rng, n: int, m: int, p: int) -> Data:
    """A program with a solution: P of any rank, rows that touch it, some bounds."""
    root, x = rng.normal(size=(n, int(rng.integers(0, n + 1)))), rng.normal(size=n)
    P, G, A = root @ root.T, rng.normal(size=(m, n)), rng.normal(size=(p, n))
    active = rng.uniform(size=m) < 0.4
    q = -(P @ x + G.T @ (active * rng.exponential(size=m)) + A.T @ rng.normal(size=p))
    lb = np.where(rng.uniform(size=n) < 0.3, x - 1 - rng.exponential(size=n), -np.inf)
    return {
        "P": P, "q": q, "G": G, "h": G @ x + np.where(active, 0, 1 + rng.exponential(size=m)),
        "A": A, "b": A @ x, "lb": lb, "ub": np.full(n, np.inf),
    }  # fmt: skip


def infeasible(rng: Rng, n: int, m: int, p: int) -> Data:
    """A sum of rows, and a row that says the opposite."""
    data = solvable(rng, n, m, p)
    weights = rng.uniform(0.5, 2, size=m)
    data["G"] = np.vstack([data["G"], -weights @ data["G"]])
    data["h"] = np.append(data["h"], -weights @ data["h"] - rng.uniform(1, 3))
    return data


def unbounded(rng: Rng, n: int, m: int, p: int) -> Data:
    """A ray without curvature that no row stops, and along which the objective falls."""
    data = solvable(rng, n, m, p)
    d = rng.normal(size=n)
    along = np.outer(d, d) / (d @ d)
    away = np.eye(n) - along
    data["P"] = away @ data["P"] @ away
    data["A"] = data["A"] @ away
    data["G"] = data["G"] @ away - np.outer(rng.uniform(size=m) < 0.5, d)
    x = rng.normal(size=n)
    data["h"], data["b"] = data["G"] @ x + rng.exponential(size=m), data["A"] @ x
    data["lb"] = np.where(d >= 0, data["lb"], -np.inf)
    data["q"] = data["q"] - (data["q"] @ d + rng.uniform(1, 3)) * d / (d @ d)
    return data


def in_other_units(rng: Rng, data: Data) -> Data:
    """x = columns x_new, rows and objective times factors, all powers of two."""
    n, m, p = data["q"].size, data["h"].size, data["b"].size
    c, columns = float(power_of_two(rng, OBJECTIVE)), power_of_two(rng, COLUMNS, n)
    rows, equalities = power_of_two(rng, ROWS, m), power_of_two(rng, ROWS, p)
    return {
        "P": c * data["P"] * np.outer(columns, columns), "q": c * data["q"] * columns,
        "G": rows[:, None] * data["G"] * columns, "h": rows * data["h"],
        "A": equalities[:, None] * data["A"] * columns, "b": equalities * data["b"],
        "lb": data["lb"] / columns, "ub": data["ub"] / columns,
    }  # fmt: skip


def in_csc(data: Data) -> Data:
    """Matrices sparse."""
    return data | {name: sp.csc_matrix(data[name]) for name in "PGA"}


KINDS = [
    (solvable, Status.SOLVED), (infeasible, Status.PRIMAL_INFEASIBLE), (unbounded, Status.DUAL_INFEASIBLE)
]  # fmt: skip


@pytest.mark.parametrize(("kind", "status"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("matrices", [dict, in_csc], ids=["dense", "sparse"])
def test_a_status_does_not_depend_on_units(kind: Any, status: Status, matrices: Any) -> None:
    wrong = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 9))
        data = kind(rng, n, int(rng.integers(1, 9)), int(rng.integers(0, n - 1)))
        found = [altdiff.solve_qp(**matrices(data)).status]
        found += [altdiff.solve_qp(**matrices(in_other_units(rng, data))).status for _ in range(2)]
        if any(one is not status for one in found):
            wrong.append((seed, [one.name for one in found]))
    assert not wrong


def test_a_row_of_1e_9_is_met_by_everything_within_one() -> None:
    # (R1) has a floor of one: what this row is violated by is 1e-9, below the tolerance.
    row: Data = {"G": np.array([[1e-9]]), "h": np.array([-1e-9])}
    assert altdiff.solve_qp(np.eye(1), np.zeros(1), **row).status is Status.SOLVED
    assert altdiff.solve_qp(np.eye(1), np.zeros(1), **row, lb=np.zeros(1)).status is Status.SOLVED
