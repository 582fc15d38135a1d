"""A solution for people and for other programs: a summary in text, and files."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._errors import advice
from altdiff._fields import MATRICES, MEASURES, POINT
from altdiff._readers._program import entries_of
from altdiff._status import Status

if TYPE_CHECKING:
    from pathlib import Path

    from altdiff._readers import QuadraticProgram
    from altdiff._solution import Solution

ENDINGS = (".npz", ".json")


def summary(program: QuadraticProgram, solution: Solution, seconds: float) -> str:
    """What the problem is and how the solve ended, a line each."""
    sizes = program.sizes
    bounds = sum(int(np.isfinite(bound).sum()) for bound in (program.lb, program.ub) if bound is not None)
    entries = (
        f"{name} {entries_of(matrix)}" for name in MATRICES if (matrix := getattr(program, name)) is not None
    )
    sense = "maximised" if program.maximise else "minimised"
    lines = {
        "problem": program.name,
        "size": f"{sizes['n']} variables, {sizes['m']} inequalities, {sizes['p']} equalities, "
        f"{bounds} bounds",
        "non-zeros": ", ".join(entries),
        "status": solution.status.name,
        "objective": f"{program.objective_in_file(solution.objective):.10g} ({sense})",
        "residuals": f"primal {solution.primal_residual:.1e}, dual {solution.dual_residual:.1e}, "
        f"gap {solution.duality_gap:.1e}",
        "iterations": str(solution.iterations),
        "time": f"{seconds:.3g} s",
    }
    if solution.status == Status.SOLVED:
        lines["degenerate"] = "yes: derivatives are a convention here" if solution.degenerate else "no"
        lines["unique"] = "yes" if solution.unique else "no: other x have this objective"
    else:
        lines["what to try"] = advice(solution.status)
    return "\n".join(f"{name:<12} {text}" for name, text in lines.items())


def write_solution(path: Path, program: QuadraticProgram, solution: Solution, seconds: float) -> None:
    """Writes the solution as .npz or JSON; `objective` is that of the file, with its constant and sense."""
    values: dict[str, Any] = {"name": program.name, "status": solution.status.name}
    values["objective"] = program.objective_in_file(solution.objective)
    values.update({name: getattr(solution, name) for name in (*POINT, *MEASURES)})
    values["seconds"] = seconds
    if program.variables:
        values["variables"] = list(program.variables)
    if path.suffix == ".npz":
        with path.open("wb") as stream:
            np.savez(stream, **values)
    else:
        plain = {name: _plain(value) for name, value in values.items()}
        path.write_text(json.dumps(plain, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """`value` as JSON has it, which knows no infinities and no NaN: null instead."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    return None if isinstance(value, float) and not math.isfinite(value) else value
