"""One problem in detail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altdiff
import numpy as np

from benchmarks.hostile.checks import residuals
from benchmarks.hostile.kinds import Kind
from benchmarks.hostile.problems import FIELDS, Point, Problem
from benchmarks.hostile.rows import Array
from benchmarks.hostile.runs import Outcome, arguments


def describe(problem: Problem) -> str:
    """Its sizes, its kinds, and the magnitudes in its fields."""
    shape = problem.shape
    kinds = ", ".join(kind.value for kind in Kind if kind in problem.kinds) or "nothing special"
    eigenvalues = np.linalg.eigvalsh(problem.P)
    lines = [
        f"problem {problem.index} of seed {problem.seed}: n = {shape.n}, m = {shape.m}, p = {shape.p}",
        f"  {kinds}",
        f"  eigenvalues of P {eigenvalues[0]:.2e} .. {eigenvalues[-1]:.2e}",
        f"  rank of A {np.linalg.matrix_rank(problem.A) if shape.p else 0}",
        *(f"  {name:2} {magnitudes(getattr(problem, name))}" for name in problem.given()),
        f"  built around x of {magnitudes(problem.built_around.x)}",
    ]
    if Kind.FREE_Q not in problem.kinds:
        lines.append(f"  the solution that it was built from has {residuals(problem, problem.built_around)}")
    return "\n".join(lines)


def magnitudes(array: Array) -> str:
    """The range of absolute entries, and how many are zero or infinite."""
    entries = np.abs(array[np.isfinite(array) & (array != 0.0)])
    spread = f"{entries.min():.2e} .. {entries.max():.2e}" if entries.size else "nothing"
    zeros, infinite = int((array == 0.0).sum()), int(np.isinf(array).sum())
    return f"{spread}, {zeros} zeros, {infinite} infinite"


def describe_answer(problem: Problem, outcome: Outcome, settings: dict[str, Any]) -> str:
    """What the library says about it, and what the check says."""
    lines = [
        f"{outcome.status} after {outcome.iterations} rounds and {outcome.milliseconds:.3f} ms;"
        f" {outcome.fault or 'no fault found'} {outcome.message}".rstrip()
    ]
    try:
        solution = altdiff.solve_qp(**arguments([problem], batched=False), **settings)
    except Exception as error:
        return "\n".join([*lines, str(error)])
    found = residuals(problem, Point(solution.x, solution.y, solution.z, solution.z_box))
    reported = (solution.primal_residual, solution.dual_residual, solution.duality_gap)
    lines.append("  reported   primal {:.2e}  dual {:.2e}  gap {:.2e}".format(*reported))
    lines.append(f"  recomputed primal {found.primal:.2e}  dual {found.dual:.2e}  gap {found.gap:.2e}")
    lines.append(
        f"  unique {solution.unique}, degenerate {solution.degenerate}, margin {solution.margin:.2e}"
    )
    return "\n".join(lines)


def save(problem: Problem, path: Path) -> None:
    """The fields, the point that they were built around and the kinds, as an .npz file."""
    fields = {name: getattr(problem, name) for name in FIELDS}
    point = {f"{name}0": getattr(problem.built_around, name) for name in ("x", "y", "z", "z_box")}
    kinds = np.array([kind.value for kind in Kind if kind in problem.kinds])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **fields, **point, kinds=kinds)
