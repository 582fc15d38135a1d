"""The table of `--derivatives`: one line a problem, the counts, and everything that fell short."""

from __future__ import annotations

import math

from benchmarks.sets.derivatives import Derivatives
from experiments.text_table import text_table

DIFFERENCE_BOUND = 1e-5
TOLERANCE_BOUND = 1e-6
MANY_ROUNDS = 5
HEADER = ["problem", "status", "finite", "rounds", "difference", "step", "LU", "tolerances", "flags"]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0e}"


def _line(name: str, found: Derivatives) -> list[str]:
    flags = ("degenerate " if found.degenerate else "") + ("" if found.unique else "not unique")
    numbers = map(_number, (found.difference, found.step, found.other, found.tolerances))
    return [name, found.status, "yes" if found.finite else "NO", str(found.rounds), *numbers, flags.strip()]


def _counts(records: list[Derivatives]) -> list[str]:
    solved = [found for found in records if found.status == "SOLVED"]
    compared = [found for found in solved if not math.isnan(found.difference)]
    repeated = [found for found in solved if not math.isnan(found.tolerances)]
    close = sum(found.difference <= DIFFERENCE_BOUND for found in compared)
    same = sum(found.tolerances <= TOLERANCE_BOUND for found in repeated)
    few = sum(found.rounds <= MANY_ROUNDS for found in solved)
    few_unique = sum(found.rounds <= MANY_ROUNDS for found in repeated)
    percent, most = 100 * few / max(len(solved), 1), max((found.rounds for found in solved), default=0)
    return [
        f"{len(solved)} of {len(records)} SOLVED, adjoint finite in {sum(f.finite for f in solved)} of them",
        f"not degenerate: {len(compared)}; gradient of q = differences to {DIFFERENCE_BOUND:.0e}: {close}",
        f"unique: {len(repeated)}; same to {TOLERANCE_BOUND:.0e} from tolerances 1e-6 to 1e-10: {same}",
        f"at most {MANY_ROUNDS} rounds of the adjoint: {few} of {len(solved)}, {percent:.0f} %; most: {most}",
        f"the same where x is unique: {few_unique} of {len(repeated)}; elsewhere rounds run twice",
        "differences: the worst of three random directions, each at the best of three steps",
    ]


def _shortfalls(name: str, found: Derivatives) -> list[str]:
    if found.status != "SOLVED":
        return [f"{name}: {found.status}"]
    lines = []
    if not found.finite:
        lines.append(f"{name}: the gradient is not finite")
    if found.difference > DIFFERENCE_BOUND:
        lines.append(
            f"{name}: differs from central differences by {found.difference:.1e} at step {found.step:.1e}, "
            f"from sparse LU by {found.other:.1e}"
        )
    if math.isinf(found.tolerances):
        lines.append(f"{name}: no point at a tolerance of 1e-10")
    elif found.tolerances > TOLERANCE_BOUND:
        lines.append(f"{name}: differs by {found.tolerances:.1e} between tolerances of the forward pass")
    if found.rounds > MANY_ROUNDS:
        lines.append(f"{name}: {found.rounds} rounds")
    return lines


def derivative_table(records: dict[str, Derivatives]) -> str:
    """Everything that `--derivatives` prints."""
    table = text_table(HEADER, [_line(name, found) for name, found in records.items()])
    falls = [line for name, found in records.items() for line in _shortfalls(name, found)]
    return "\n".join([table, *_counts(list(records.values())), *falls])
