"""Whether a method is worth starting, judged by what it took before: the whole has a limit of time too."""

from __future__ import annotations

import math
from collections.abc import Callable

from experiments.results import Record

Cells = dict[str, Record]
Guess = Callable[[str], float | None]  # of a method's label: seconds, infinite where it is hopeless
CUBIC = 3.0  # factorisations of dense matrices; a call where one size alone is known
SLOWEST = 1.0  # an exponent below it comes from overhead, which does not last
UNFINISHED = "did not finish"


def unfinished(cell: Record | None) -> bool:
    """Whether a method ran into its limit of time or of memory, or was predicted to."""
    problem = "" if cell is None else str(cell.get("problem", ""))
    return problem.startswith(UNFINISHED) or "MemoryError" in problem


def continued(known: list[tuple[int, float]], n: int, power: float) -> float:
    """Seconds at n, from (size, seconds): as the last two grew, or by the power where there is one alone."""
    size, seconds = known[-1]
    if len(known) > 1:
        earlier, less = known[-2]
        power = max(SLOWEST, math.log(seconds / less) / math.log(size / earlier))
    return float(seconds * (n / size) ** power)


def from_sizes(cells: Cells, before: list[tuple[str, int]], n: int) -> Guess:
    """By the rows of smaller sizes (row, n), the largest last: the longer of building a layer and calling it.

    Building is mostly imports and compilers, which hardly grow: taken to be linear until two sizes say more.
    """

    def guess(label: str) -> float | None:
        known = []
        for row, size in before:
            cell = cells.get(f"{row}/{label}")
            if unfinished(cell):
                return math.inf
            if cell is not None and "first" in cell:
                known.append((size, float(cell["building"]), float(cell["first"])))
        if not known:
            return None
        building = continued([(size, seconds) for size, seconds, _ in known], n, SLOWEST)
        calling = continued([(size, seconds) for size, _, seconds in known], n, CUBIC)
        return max(building, calling)

    return guess


def from_tolerances(cells: Cells, row: str) -> Guess:
    """A method that did not finish at one tolerance, of a list from loose to tight, is not started again."""

    def guess(label: str) -> float | None:
        method = label.partition("@")[0]
        mine = (cell for name, cell in cells.items() if name.startswith(f"{row}/{method}@"))
        return math.inf if any(unfinished(cell) for cell in mine) else None

    return guess


def no_guess(_: str) -> float | None:
    """Everything is started."""
    return None


def predicted(seconds: float, source: str) -> Record:
    """The cell of a method that was not started; it says so."""
    estimate = f", about {seconds:.0f} s" if math.isfinite(seconds) else ""
    return {"problem": f"{UNFINISHED} (predicted from the {source} before{estimate})", "predicted": seconds}


def is_missing(cell: Record | None, limit: float) -> bool:
    """Whether a cell is to be measured: there is none, or one predicted for a shorter limit."""
    return cell is None or limit >= float(cell.get("predicted", math.inf)) < math.inf
