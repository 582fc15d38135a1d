"""Random problems with limits on both sides, and writers of the files that `read_qp` reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
from scipy.sparse import csc_array, csc_matrix

from helpers.problems import Array, Data

INFINITE = 1e20


@dataclass(frozen=True)
class Ranged:
    """minimise 1/2 x'Px + q'x + constant subject to lower <= A x <= upper, lb <= x <= ub; all dense."""

    P: Array
    q: Array
    A: Array
    lower: Array
    upper: Array
    lb: Array
    ub: Array
    constant: float

    def fields(self) -> Data:
        """The eight fields, written out in the most direct way."""
        equal = self.lower == self.upper
        above, below = ~equal & np.isfinite(self.upper), ~equal & np.isfinite(self.lower)
        return {
            "P": self.P,
            "q": self.q,
            "G": np.vstack([self.A[above], -self.A[below]]),
            "h": np.concatenate([self.upper[above], -self.lower[below]]),
            "A": self.A[equal],
            "b": self.lower[equal],
            "lb": self.lb,
            "ub": self.ub,
        }


def random_ranged(seed: int, n: int, m: int) -> Ranged:
    """Rows of every kind: equal, one-sided, two-sided and free; bounds of every kind."""
    rng = np.random.default_rng(seed)
    P = np.where(rng.random((n, n)) < 0.5, rng.normal(size=(n, n)), 0.0)
    A = np.where(rng.random((m, n)) < 0.6, rng.normal(size=(m, n)), 0.0)
    lower, upper = _limits(rng, m)
    lb, ub = _limits(rng, n)
    return Ranged(P @ P.T, rng.normal(size=n), A, lower, upper, lb, ub, float(rng.normal()))


def _limits(rng: np.random.Generator, size: int) -> tuple[Array, Array]:
    kind = rng.integers(5, size=size)
    lower = rng.normal(size=size)
    upper = np.where(kind == 0, lower, lower + rng.uniform(0.1, 2.0, size=size))
    return np.where((kind == 1) | (kind == 4), -np.inf, lower), np.where(kind >= 3, np.inf, upper)


def write_mat(path: Path, problem: Ranged, **changes: object) -> None:
    """The form of the Maros-Meszaros set: bounds are the last rows of A, infinities are 1e20."""
    m, n = problem.A.shape
    values: dict[str, object] = {
        "P": csc_matrix(problem.P),
        "q": problem.q[:, np.newaxis],
        "A": csc_matrix(np.vstack([problem.A, np.eye(n)])),
        "l": np.maximum(np.concatenate([problem.lower, problem.lb]), -INFINITE)[:, np.newaxis],
        "u": np.minimum(np.concatenate([problem.upper, problem.ub]), INFINITE)[:, np.newaxis],
        "r": problem.constant,
        "n": n,
        "m": m + n,
    }
    values |= changes
    scipy.io.savemat(path, {name: value for name, value in values.items() if value is not None})


def write_npz(path: Path, data: Data, sparse: bool = False) -> None:
    """The eight names; matrices in parts if `sparse`, absent fields as numpy stores None."""
    stored: Data = {}
    for name, value in data.items():
        if sparse and name in ("P", "G", "A"):
            matrix = csc_array(value)
            parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
            stored |= {f"{name}_{part}": array for part, array in parts.items()}
            stored[f"{name}_shape"] = matrix.shape
        else:
            stored[name] = value
    np.savez(path, **stored)


def qps_text(problem: Ranged, style: str = "free", section: str = "QUADOBJ", sense: str = "") -> str:
    """A QPS file; names hold blanks in the fixed style. Numbers are exact in the free style."""
    m, n = problem.A.shape
    columns = [f"x {j}" if style == "fixed" else f"x{j}" for j in range(n)]
    rows = [f"row {i}" if style == "fixed" else f"row{i}" for i in range(m)]
    kinds = [_kind(low, up) for low, up in zip(problem.lower, problem.upper, strict=True)]
    lines = [
        "* a comment",
        "NAME          EXAMPLE",
        *([f"OBJSENSE\n    {sense}"] if sense else []),
        "ROWS",
        " N  cost",
    ]
    lines += [f" {kind}  {row}" for kind, row in zip(kinds, rows, strict=True)]
    lines += ["COLUMNS"]
    for j, column in enumerate(columns):
        lines.append(_line(style, "", column, "cost", problem.q[j]))
        lines += [_line(style, "", column, rows[i], problem.A[i, j]) for i in range(m) if problem.A[i, j]]
    lines += ["RHS", _line(style, "", "RHS", "cost", -problem.constant)]
    rhs = np.where(np.isfinite(problem.upper), problem.upper, problem.lower)
    lines += [_line(style, "", "RHS", rows[i], rhs[i]) for i in range(m) if kinds[i] != "N"]
    lines += ["RANGES"]
    both = np.isfinite(problem.lower) & np.isfinite(problem.upper) & (problem.lower < problem.upper)
    width = problem.upper - problem.lower
    lines += [_line(style, "", "RNG", rows[i], width[i]) for i in np.flatnonzero(both)]
    lines += ["BOUNDS"]
    for j, column in enumerate(columns):
        lines.append(_line(style, "LO" if np.isfinite(problem.lb[j]) else "MI", "BND", column, problem.lb[j]))
        lines.append(_line(style, "UP" if np.isfinite(problem.ub[j]) else "PL", "BND", column, problem.ub[j]))
    lines += [section]
    pairs = np.argwhere(problem.P if section == "QMATRIX" else np.triu(problem.P))
    lines += [_line(style, "", columns[i], columns[j], problem.P[i, j]) for i, j in pairs]
    return "\n".join([*lines, "ENDATA", ""])


def _kind(lower: float, upper: float) -> str:
    if lower == upper:
        return "E"
    if np.isfinite(upper):
        return "L"
    return "G" if np.isfinite(lower) else "N"


def _line(style: str, code: str, first: str, second: str, number: float) -> str:
    value = f"{number:.12g}"[:12] if style == "fixed" else repr(float(number))
    value = "" if not np.isfinite(number) else value
    return f" {code:<2} {first:<8}  {second:<8}  {value:>12}".rstrip()
