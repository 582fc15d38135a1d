"""Solves and differentiates a batch: what the NumPy and torch front ends share.

Every function takes and returns NumPy arrays with the batch's leading dimensions. The instances are solved
side by side, on `num_threads` threads; the gradient of an array that several instances share is the sum over
them, in the order of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._accumulate import Accumulator
from altdiff._directions import block, direction
from altdiff._envelope import objective_gradient
from altdiff._errors import SolveError
from altdiff._fields import FIELDS, MATRICES, POINT
from altdiff._native import core
from altdiff._status import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._binding import NativeSettings, NativeSolution, Point
    from altdiff._problem import Index, Problem

POLICIES = ("raise", "nan", "zero")

# Numbers that describe each instance's solve, and their types.
_REPORT: dict[str, type] = {
    "objective": np.float64,
    "status": np.int64,
    "iterations": np.int64,
    "primal_residual": np.float64,
    "dual_residual": np.float64,
    "duality_gap": np.float64,
    "degenerate": np.bool_,
    "unique": np.bool_,
    "margin": np.float64,
}

# Stopped early still leaves a point to differentiate at; the other failures do not.
_DIFFERENTIABLE = (Status.SOLVED, Status.MAX_ITERATIONS, Status.TIME_LIMIT)


@dataclass(frozen=True)
class Solved:
    """A batch of solutions, and what their derivatives need."""

    problem: Problem
    settings: NativeSettings
    natives: dict[Index, NativeSolution | None]  # None: this instance has no derivative
    point: dict[str, Array]  # x, y, z, z_box
    report: dict[str, NDArray[Any]]  # the numbers of _REPORT
    without_derivative: float = np.nan  # what stands for the derivative of an instance without one


def solve(problem: Problem, settings: NativeSettings, initial: Mapping[str, Array] | None = None) -> Solved:
    """Solves every instance. What the numbers did is in the status; nothing is raised."""
    point = {name: np.full(_shape(problem, name), np.nan) for name in POINT}
    report: dict[str, NDArray[Any]] = {
        name: np.full(problem.batch, _unsolved(kind), dtype=kind) for name, kind in _REPORT.items()
    }
    natives: dict[Index, NativeSolution | None] = dict.fromkeys(problem.indices())
    report["status"][problem.invalid] = Status.INVALID_DATA
    kind = core.SparseProblem if problem.sparse else core.DenseProblem
    valid = [index for index in natives if not problem.invalid[index]]
    programs = [kind(*problem.instance(index)) for index in valid]
    starts = [_start(initial, index) for index in valid]
    for index, native in zip(valid, core.solve_each(programs, settings, starts), strict=True):
        for name, values in point.items():
            values[index] = getattr(native, name)
        for name, numbers in report.items():
            numbers[index] = int(native.status) if name == "status" else getattr(native, name)
        if report["status"][index] in _DIFFERENTIABLE:
            natives[index] = native
    return Solved(problem, settings, natives, point, report)


def settle(solved: Solved, on_failure: str) -> Solved:
    """Applies a failure policy to the instances that were not solved; the others are untouched.

    "raise": a SolveError. "nan": values and derivatives are NaN. "zero": the values of the last iterate (zero
    where there is none) and zero derivatives.
    """
    failed = solved.report["status"] != Status.SOLVED
    if not failed.any():
        return solved
    if on_failure == "raise":
        raise SolveError(solved.report["status"])
    filler = np.nan if on_failure == "nan" else 0.0
    values = {**solved.point, "objective": solved.report["objective"]}
    for name, value in values.items():
        last = value[failed]
        values[name] = value.copy()
        values[name][failed] = np.nan if on_failure == "nan" else np.where(np.isfinite(last), last, 0.0)
    report = {**solved.report, "objective": values.pop("objective")}
    natives = {index: None if failed[index] else native for index, native in solved.natives.items()}
    return replace(solved, natives=natives, point=values, report=report, without_derivative=filler)


def vjp(solved: Solved, bars: Mapping[str, Array | None], wanted: Iterable[str] = FIELDS) -> dict[str, Block]:
    """Gradients of the wanted fields for cotangents of x, y, z, z_box and objective (missing: zero).

    An instance whose cotangents are all zero contributes zero whatever its status, so that masking an
    instance out of a loss also masks its gradient. Fields that were not given get None.
    """
    problem = solved.problem
    wanted = tuple(wanted)
    sums = {name: Accumulator(problem, name) for name in wanted if problem.given[name] is not None}
    usable: dict[Index, dict[str, Array]] = {}
    for index, native in solved.natives.items():
        own = {name: bar[index] for name, bar in bars.items() if bar is not None and np.any(bar[index])}
        if not own:
            continue
        if native is None:
            _fill(sums, index, solved.without_derivative)
        elif not all(np.isfinite(bar).all() for bar in own.values()):
            _fill(sums, index, np.nan)
        else:
            usable[index] = own
    _add_point(solved, sums, usable)
    _add_objective(solved, sums, usable)
    return {name: sums[name].result() if name in sums else None for name in wanted}


def _fill(sums: Mapping[str, Accumulator], index: Index, value: float) -> None:
    for total in sums.values():
        total.fill(index, value)


def _add_point(
    solved: Solved, sums: Mapping[str, Accumulator], bars: Mapping[Index, Mapping[str, Array]]
) -> None:
    """Adds what flows through x, y, z and z_box: one solve with the instance's own factor each."""
    natives = {i: solved.natives[i] for i, own in bars.items() if any(part in POINT for part in own)}
    solutions = [native for native in natives.values() if native is not None]
    cotangents = [tuple(bars[index].get(part) for part in POINT) for index in natives]
    gradients = core.vjp_each(solutions, cotangents, solved.settings)
    for index, gradient in zip(natives, gradients, strict=True):
        for name, value in zip(FIELDS, gradient, strict=True):
            if name in sums:
                sums[name].add(index, value)


def _add_objective(
    solved: Solved, sums: Mapping[str, Accumulator], bars: Mapping[Index, Mapping[str, Array]]
) -> None:
    """Adds what flows through the objective, by the envelope theorem."""
    for index, own in bars.items():
        if "objective" not in own:
            continue
        point = {name: values[index] for name, values in solved.point.items()}
        for name, total in sums.items():
            total.add_dense(index, own["objective"] * objective_gradient(name, point))


def jvp(solved: Solved, tangents: Mapping[str, MatrixLike | None]) -> dict[str, Array]:
    """Tangents of x, y, z and z_box for tangents of the fields (missing: zero)."""
    problem = solved.problem
    directions = {name: direction(problem, name, tangents.get(name)) for name in FIELDS}
    out = {name: np.full(_shape(problem, name), solved.without_derivative) for name in POINT}
    for index, native in solved.natives.items():
        if native is None:
            continue
        P, q, G, h, A, b, lb, ub = (block(problem, name, directions[name], index) for name in FIELDS)
        for name, values in zip(POINT, native.jvp(P, q, G, h, A, b, lb, ub), strict=True):
            out[name][index] = values
    return out


def jacobian(solved: Solved, field: str) -> Array:
    """The derivative of x with respect to a vector field: (..., n, size of the field)."""
    problem = solved.problem
    vectors = [name for name in FIELDS if name not in MATRICES]
    if field not in vectors:
        raise ValueError(
            f"field must be one of {', '.join(vectors)}, got {field!r}; use vjp or jvp for matrices"
        )
    shape = (*problem.batch, problem.sizes["n"], *problem.shape(field))
    out = np.full(shape, solved.without_derivative)
    for index, native in solved.natives.items():
        if native is not None:
            out[index] = native.jacobian(field)
    return out


def _shape(problem: Problem, name: str) -> tuple[int, ...]:
    return (*problem.batch, problem.sizes[POINT[name]])


def _unsolved(kind: type) -> float | bool:
    return np.nan if kind is np.float64 else False


def _start(initial: Mapping[str, Array] | None, index: Index) -> Point | None:
    if initial is None:
        return None
    x, y, z, z_box = (initial[name][index] for name in POINT)
    known = all(np.isfinite(part).all() for part in (x, y, z, z_box))
    return (x, y, z, z_box) if known else None
