"""The results as text."""

from __future__ import annotations

from benchmarks.peers.growth import Point
from benchmarks.peers.layers import ALTDIFF, LIBRARIES
from benchmarks.peers.measure import EXACT, RIGHT, Cell, Result
from experiments.text_table import text_table

HEADER = [
    "library",
    "forward ms",
    "backward ms",
    "total ms",
    "/dpotrf",
    "memory MB",
    "error x",
    "gradient error",
    "calls",
]
SUMMARY_HEADER = [
    "workload",
    "altdiff ms",
    "/dpotrf",
    "error",
    "best peer",
    "its ms",
    "ratio",
    "wanted",
    "met",
    "with options",
]
GROWTH_HEADER = ["", "total ms", "forward ms", "backward ms", "dpotrf ms", "/dpotrf", "memory MB", "error"]


def milliseconds(seconds: float) -> str:
    """Three significant digits, no exponent."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def megabytes(size: int) -> str:
    """With one decimal."""
    return f"{size / 1e6:.1f}"


def plain(value: float) -> str:
    """Three significant digits, no exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def cell_row(result: Result, cell: Cell) -> list[str]:
    """One line; dashes where there are no numbers."""
    if not cell.ok:
        return [cell.library, *["-"] * (len(HEADER) - 1)]
    name, error = cell.worst_gradient
    return [
        cell.library,
        milliseconds(cell.forward),
        milliseconds(cell.backward),
        milliseconds(cell.total),
        plain(result.units(cell)),
        megabytes(cell.memory),
        f"{cell.errors['x']:.0e}",
        f"{error:.0e} {name}",
        f"{len(cell.times)} cold" if cell.cold else str(len(cell.times)),
    ]


def result_table(result: Result) -> str:
    """One workload: a line a library, with the reason where there are no numbers, and the ratio."""
    cells = list(result.cells.values())
    head, rule, *lines = text_table(HEADER, [cell_row(result, cell) for cell in cells]).splitlines()
    rows = [
        f"{line}  {cell.problem or cell.remark}".rstrip() for line, cell in zip(lines, cells, strict=True)
    ]
    title = f"{result.workload.name}: {result.workload.what}; dpotrf {milliseconds(result.unit)} ms"
    return "\n".join([title, head, rule, *rows, conclusion(result)])


def conclusion(result: Result) -> str:
    """Who is the best peer, and by how much altdiff is ahead of it."""
    best, ratio, ours = result.best_peer, result.ratio, result.ours
    if result.workload.alone:
        return f"{ALTDIFF} alone" + ("" if ours is None else f": {plain(result.units(ours))} dpotrf")
    kind = "rival" if result.workload.rival else "best peer"
    if best is None:
        return f"{kind}: none" + ("" if result.workload.rival else f" with all errors below {RIGHT:.0e}")
    if ratio is None:
        return f"{kind}: {best.library}"
    tuned = with_options(result)
    remark = "" if tuned == "-" else f" (with options: {tuned})"
    return f"{kind}: {best.library}; {best.library} / {ALTDIFF} = {plain(ratio)}{remark}"


def with_options(result: Result) -> str:
    """The ratio to a peer whose options make it faster than the best one with defaults."""
    best = result.best(tuned=True)
    ratio = result.ratio_to(best)
    if best is None or ratio is None or best is result.best_peer:
        return "-"
    return f"{best.library} {plain(ratio)}"


def wanted(result: Result) -> str:
    """The goal, in words."""
    workload = result.workload
    if workload.units is not None:
        return f"<= {workload.units:g} dpotrf"
    return "-" if workload.ratio is None else f">= {workload.ratio:g}"


def met(result: Result) -> str:
    """Whether the goal is reached, with altdiff's own answers exact."""
    workload, ours, ratio = result.workload, result.ours, result.ratio
    if workload.units is None and workload.ratio is None:
        return "-"
    if ours is None:
        return "no"
    if ours.worst_error > EXACT:
        return "no (error)"
    if workload.units is not None:
        return "yes" if result.units(ours) <= workload.units else "no"
    if ratio is None or workload.ratio is None:
        return "no rival"
    return "yes" if ratio >= workload.ratio else "no"


def summary_row(result: Result) -> list[str]:
    """One line of the summary."""
    ours, best, ratio = result.ours, result.best_peer, result.ratio
    numbers = ["-", "-", "-"]
    if ours is not None:
        numbers = [milliseconds(ours.total), plain(result.units(ours)), f"{ours.worst_error:.0e}"]
    peer = ["none", "-"] if best is None else [best.library, milliseconds(best.total)]
    return [
        result.workload.name,
        *numbers,
        *peer,
        "-" if ratio is None else plain(ratio),
        wanted(result),
        met(result),
        with_options(result),
    ]


def summary_table(results: list[Result]) -> str:
    """All workloads."""
    return text_table(SUMMARY_HEADER, [summary_row(result) for result in results])


def growth_row(point: Point) -> list[str]:
    """One line; dashes where there are no numbers."""
    result, ours = point.result, point.result.ours
    if ours is None:
        return [str(point.value), *["-"] * (len(GROWTH_HEADER) - 1)]
    return [
        str(point.value),
        milliseconds(ours.total),
        milliseconds(ours.forward),
        milliseconds(ours.backward),
        milliseconds(result.unit),
        plain(result.units(ours)),
        megabytes(ours.memory),
        f"{ours.worst_error:.0e}",
    ]


def growth_table(title: str, points: list[Point]) -> str:
    """One series, with the reason where there are no numbers."""
    head, rule, *lines = text_table(GROWTH_HEADER, [growth_row(point) for point in points]).splitlines()
    reasons = (point.result.cells[ALTDIFF].problem for point in points)
    rows = [f"{line}  {reason}".rstrip() for line, reason in zip(lines, reasons, strict=True)]
    return "\n".join([title, head, rule, *rows])


def notes(libraries: list[str], results: list[Result]) -> str:
    """Versions, and how each library is used."""
    lines = []
    for name in libraries:
        versions = {result.cells[name].version for result in results if name in result.cells}
        version = next((text for text in sorted(versions, reverse=True) if text), "no version")
        note = LIBRARIES[name].note
        lines.append(f"  {name}: {version}" + (f"; {note}" if note else ""))
    return "\n".join(lines)
