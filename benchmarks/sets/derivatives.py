"""Derivatives of one problem, held against what does not use them: differences, another solver, tolerances.

The loss is x_bar'x with a fixed random x_bar, the gradient that of the eight fields. A number counts as zero
if it is below 1e-8 of the field's natural unit |x_bar| |x| / |field|: at a vertex x does not move with q at
all, and the gradient is rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp
from altdiff import QuadraticProgram, Solution
from altdiff._arrays import is_sparse
from altdiff._problem import make_problem
from altdiff._settings import native_settings
from altdiff._sparse import solve as solve_sparse
from numpy.typing import NDArray

from benchmarks.sets.active_rows import kkt_adjoint, largest_step
from benchmarks.sets.solvers import whole

DIRECTIONS = 3
STEPS = (0.9, 0.1, 0.01)  # of the way to the nearest change of the active set
TOLERANCES = (1e-6, 1e-10)  # held against the default, 1e-8
ZERO = 1e-8  # of the natural unit

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Derivatives:
    """What was found; NaN where a check does not apply."""

    status: str
    degenerate: bool = False
    unique: bool = True
    finite: bool = False  # every number of every field's gradient
    rounds: int = 0  # that the adjoint of the sparse form needs
    difference: float = np.nan  # q's gradient against central differences, worst direction at its best step
    step: float = np.nan  # of that one, relative to q
    other: float = np.nan  # q's gradient against sparse LU of the KKT matrix
    tolerances: float = np.nan  # worst field, worst tolerance of the forward pass


def check(qp: QuadraticProgram, time_limit: float) -> Derivatives:
    """All checks that apply: differences need a derivative, tolerances a unique x."""
    solution = altdiff.solve_qp(**qp.fields(), time_limit=time_limit)
    if solution.status != altdiff.Status.SOLVED:
        return Derivatives(solution.status.name)
    x_bar = np.random.default_rng(0).normal(size=qp.q.size)
    gradient = _gradient(solution, x_bar)
    found: dict[str, Any] = {"finite": all(np.isfinite(part).all() for part in gradient.values())}
    if not solution.degenerate:
        found["difference"], found["step"] = _difference(qp, solution, x_bar, time_limit)
        expected = kkt_adjoint(whole(qp), solution, x_bar)
        found["other"] = _error(qp, solution, x_bar, "q", gradient["q"], expected)
    if solution.unique:
        found["tolerances"] = max(
            _tolerance_error(qp, solution, x_bar, tolerance, time_limit) for tolerance in TOLERANCES
        )
    return Derivatives(solution.status.name, solution.degenerate, solution.unique, rounds=rounds(qp), **found)


def rounds(qp: QuadraticProgram) -> int:
    """Alternating rounds of a derivative. Dense data are made sparse: in constraint space there are none."""
    fields = qp.fields()
    fields.update({name: sp.csc_array(fields[name]) for name in ("P", "G", "A") if fields[name] is not None})
    native = solve_sparse(make_problem(fields), native_settings({})).natives[()]
    return 0 if native is None else native.derivative_rounds


def _gradient(solution: Solution, x_bar: Vector) -> dict[str, Any]:
    """The fields' gradients as arrays of numbers; on their pattern if sparse."""
    parts = solution.vjp(x_bar)._asdict().items()
    return {name: _numbers(part) for name, part in parts if part is not None}


def _numbers(field: Any) -> Vector:
    return np.atleast_1d(field.data if is_sparse(field) else field).ravel()


def _unit(qp: QuadraticProgram, solution: Solution, x_bar: Vector, name: str) -> float:
    numbers = np.abs(_numbers(getattr(qp, name)))
    size = max(numbers[np.isfinite(numbers)], default=0.0)
    return float(np.linalg.norm(x_bar) * np.abs(solution.x).max() / (size or 1.0))


def _error(
    qp: QuadraticProgram, solution: Solution, x_bar: Vector, name: str, value: Vector, expected: Vector
) -> float:
    scale = max(float(np.linalg.norm(expected)), ZERO * _unit(qp, solution, x_bar, name), 1e-300)
    return float(np.linalg.norm(value - expected)) / scale


def _tolerance_error(
    qp: QuadraticProgram, solution: Solution, x_bar: Vector, tolerance: float, time_limit: float
) -> float:
    other = altdiff.solve_qp(**qp.fields(), tolerance=tolerance, time_limit=time_limit)
    if not np.isfinite(other.x).all():
        return np.inf
    value, expected = _gradient(other, x_bar), _gradient(solution, x_bar)
    return max(_error(qp, solution, x_bar, name, value[name], expected[name]) for name in expected)


def _difference(
    qp: QuadraticProgram, solution: Solution, x_bar: Vector, time_limit: float
) -> tuple[float, float]:
    """The worst direction's error, and its step relative to q.

    While the active set stays, x is linear in q, and a difference has no error but that of the two solutions:
    the longest step that keeps the set is the best one. Shorter ones are tried where it does not agree.
    """
    rng, full, u = np.random.default_rng(1), whole(qp), solution.vjp(x_bar).q
    scale = max(float(np.linalg.norm(u)), ZERO * _unit(qp, solution, x_bar, "q"), 1e-300)
    size, worst = np.abs(qp.q).max() or 1.0, (0.0, np.nan)

    def x_at(q: Vector) -> Vector:
        return altdiff.solve_qp(**{**qp.fields(), "q": q}, time_limit=time_limit).x

    for _ in range(DIRECTIONS):
        d = rng.normal(size=u.size)
        limit = min(largest_step(full, solution, solution.jvp(q=d)), size)
        tried = []
        for step in (fraction * limit for fraction in STEPS):
            slope = x_bar @ (x_at(qp.q + step * d) - x_at(qp.q - step * d)) / (2 * step)
            tried.append((float(abs(slope - u @ d)) / scale, step / size))
            if tried[-1][0] <= 1e-7:
                break
        worst = max(worst, min(tried))
    return worst
