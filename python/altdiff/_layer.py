"""Solves and differentiates a batch: what the NumPy and torch front ends share.

Every function takes and returns NumPy arrays with the batch's leading dimensions. Dense and sparse batches
differ in who works on them; the failure policy is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff import _dense, _sparse
from altdiff._arrays import is_sparse
from altdiff._errors import SolveError
from altdiff._fields import FIELDS, MATRICES, POINT
from altdiff._status import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._binding import NativeSettings
    from altdiff._problem import Problem
    from altdiff._solved import Batch

POLICIES = ("raise", "nan", "zero")
_LARGEST_SPECTRUM = 1000  # variables: beyond, eigenvalues take longer than the solve


def check_policy(on_failure: str) -> None:
    """An error that lists the failure policies, unless `on_failure` is one."""
    if on_failure not in POLICIES:
        raise ValueError(f"on_failure must be one of {', '.join(POLICIES)}, got {on_failure!r}")


@dataclass(eq=False)
class Solved:
    """A batch of solutions, and what their derivatives need."""

    batch: Batch
    settled: Mapping[str, Array] | None = None  # x, y, z, z_box and objective after a failure policy
    only_solved: bool = False  # an instance that stopped early has no derivative
    without_derivative: float = np.nan  # what stands for the derivative of an instance without one
    call: Any = None  # what a front end needs to solve it again

    def part(self, name: str) -> Array:
        """A new array with x, y, z, z_box or objective."""
        if self.settled is not None:
            return self.settled[name].copy()
        return self.report["objective"].copy() if name == "objective" else self.batch.part(name)

    @cached_property
    def report(self) -> dict[str, NDArray[Any]]:
        """What became of each instance: objective, status, ..."""
        report = self.batch.report()
        return report if self.settled is None else {**report, "objective": self.settled["objective"]}

    @cached_property
    def several_x(self) -> bool:
        """Whether some instance has other solutions than the one that was chosen."""
        chosen = ~self.report["unique"] & (self.report["status"] == Status.SOLVED)
        return bool(chosen.any())

    def __deepcopy__(self, memo: object) -> Solved:
        """It never changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Imported here because it builds on this module.
        from altdiff._revived import reduced

        return reduced(self)


def solve(problem: Problem, settings: NativeSettings, initial: Mapping[str, Array] | None = None) -> Solved:
    """Solves every instance. What the numbers did is in the status.

    Raised is only what is wrong with an array that all instances share.
    """
    return Solved(
        _sparse.solve(problem, settings, initial)
        if problem.sparse
        else _dense.solve(problem, settings, initial)
    )


def settle(solved: Solved, on_failure: str) -> Solved:
    """Applies a failure policy to the instances that were not solved; the others are untouched.

    "raise": a SolveError. "nan": values and derivatives are NaN. "zero": the values of the last iterate (zero
    where there is none) and zero derivatives.
    """
    if solved.batch.all_solved:
        return solved
    status = solved.report["status"]
    if on_failure == "raise":
        raise SolveError(status, solved.batch.kind, _spectrum(solved, status))
    failed = status != Status.SOLVED
    values = {name: solved.part(name) for name in (*POINT, "objective")}
    for value in values.values():
        last = value[failed]
        value[failed] = np.nan if on_failure == "nan" else np.where(np.isfinite(last), last, 0.0)
    filler = np.nan if on_failure == "nan" else 0.0
    return Solved(solved.batch, values, only_solved=True, without_derivative=filler, call=solved.call)


def _spectrum(solved: Solved, status: NDArray[np.int64]) -> tuple[float, float] | None:
    """The ends of the spectrum of the first P that is called nonconvex, if it is not too large to ask."""
    nonconvex = np.argwhere(status == Status.NONCONVEX)
    if solved.batch.kind != "quadratic" or len(nonconvex) == 0:
        return None
    P = solved.batch.problem.instance(tuple(int(i) for i in nonconvex[0]))[0]
    if P is None or P.shape[0] > _LARGEST_SPECTRUM:
        return None
    P = P.toarray() if is_sparse(P) else np.asarray(P)
    eigenvalues = np.linalg.eigvalsh(0.5 * (P + P.T))
    return float(eigenvalues[0]), float(eigenvalues[-1])


def vjp(solved: Solved, bars: Mapping[str, Array | None], wanted: Iterable[str] = FIELDS) -> dict[str, Block]:
    """Gradients of the wanted fields for cotangents of x, y, z, z_box and objective (missing: zero).

    An instance whose cotangents are all zero contributes zero whatever its status, so that masking an
    instance out of a loss also masks its gradient. Fields that were not given get None. The gradient of an
    array that several instances share is the sum over them.
    """
    return solved.batch.vjp(bars, tuple(wanted), solved.without_derivative, solved.only_solved)


def jvp(solved: Solved, tangents: Mapping[str, MatrixLike | None]) -> dict[str, Array]:
    """Tangents of x, y, z and z_box for tangents of the fields (missing: zero)."""
    return solved.batch.jvp(tangents, solved.without_derivative, solved.only_solved)


def flat_part(solved: Solved, v: Array) -> Array:
    """(L2): the part of vectors like x along which x can move without cost; zero where there is none."""
    return solved.batch.flat_part(v, solved.only_solved)


def jacobian(solved: Solved, field: str) -> Array:
    """The derivative of x with respect to a vector field: (..., n, size of the field)."""
    vectors = [name for name in FIELDS if name not in MATRICES]
    if field not in vectors:
        raise ValueError(
            f"field must be one of {', '.join(vectors)}, got {field!r}; use vjp or jvp for matrices"
        )
    return solved.batch.jacobian(field, solved.without_derivative, solved.only_solved)
