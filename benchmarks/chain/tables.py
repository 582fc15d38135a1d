"""The results as text."""

from __future__ import annotations

from benchmarks.chain.forward import Forward
from benchmarks.chain.growth import Growth, exponents
from benchmarks.chain.race import RIGHT, best_peer
from benchmarks.peers.layers import ALTDIFF
from benchmarks.peers.measure import Cell
from benchmarks.peers.tables import milliseconds, plain
from experiments.text_table import text_table

GROWTH_HEADER = ["n", "status", "forward s", "vjp s", "memory GB", "residual", "at bounds", "calls"]
FORWARD_HEADER = [
    "n",
    "altdiff ms",
    "piqp ms",
    "altdiff / piqp",
    "residual",
    "piqp's",
    "rounds",
    "piqp's",
    "calls",
]
RACE_HEADER = ["library", "forward ms", "backward ms", "total ms", "/ altdiff", "error x", "error q", "calls"]


def growth_row(point: Growth) -> list[str]:
    """One size."""
    return [
        str(point.n),
        point.status,
        f"{point.forward:.4g}",
        f"{point.backward:.4g}",
        f"{point.memory / 1e9:.4f}",
        f"{point.residual:.0e}",
        f"{point.active:.1%}",
        str(point.calls),
    ]


def growth_table(points: list[Growth]) -> str:
    """All sizes, and the exponents."""
    slopes = exponents(points)
    fit = ", ".join(f"{name} {slope:.2f}" for name, slope in slopes.items()) or "needs two sizes"
    table = text_table(GROWTH_HEADER, [growth_row(point) for point in points])
    return f"Growth, altdiff\n{table}\nslope of log over log n (1.0 = linear): {fit}"


def forward_row(n: int, found: dict[str, Forward]) -> list[str]:
    """One size."""
    ours, theirs = found["altdiff"], found["piqp"]
    return [
        str(n),
        milliseconds(ours.seconds),
        milliseconds(theirs.seconds),
        f"{ours.seconds / theirs.seconds:.2f}",
        f"{ours.residual:.0e}",
        f"{theirs.residual:.0e}",
        str(ours.iterations),
        str(theirs.iterations),
        str(ours.calls),
    ]


def forward_table(rounds: dict[int, dict[str, Forward]]) -> str:
    """All sizes."""
    table = text_table(FORWARD_HEADER, [forward_row(n, found) for n, found in rounds.items()])
    return f"Forward, beside PIQP (eps 1e-9)\n{table}"


def race_row(cell: Cell, ours: Cell) -> list[str]:
    """One library; dashes where there are no numbers."""
    if not cell.ok:
        return [cell.library, *["-"] * (len(RACE_HEADER) - 1)]
    return [
        cell.library,
        milliseconds(cell.forward),
        milliseconds(cell.backward),
        milliseconds(cell.total),
        plain(cell.total / ours.total) if ours.ok else "-",
        f"{cell.errors['x']:.0e}",
        f"{cell.errors['q']:.0e}",
        f"{len(cell.times)} cold" if cell.cold else str(len(cell.times)),
    ]


def race_table(n: int, cells: dict[str, Cell]) -> str:
    """One size, with the reason where a library has no numbers, and the ratio to the best."""
    ours = cells[ALTDIFF]
    rows = [race_row(cell, ours) for cell in cells.values()]
    head, rule, *lines = text_table(RACE_HEADER, rows).splitlines()
    remarks = [cell.problem or cell.remark for cell in cells.values()]
    body = [f"{line}  {remark}".rstrip() for line, remark in zip(lines, remarks, strict=True)]
    return "\n".join([f"Forward and backward, n = {n}", head, rule, *body, conclusion(cells)])


def conclusion(cells: dict[str, Cell]) -> str:
    """Who is the best peer, and by how much altdiff is ahead of it."""
    best, ours = best_peer(cells), cells[ALTDIFF]
    if best is None:
        return f"best peer: none with errors below {RIGHT:.0e}"
    if not ours.ok:
        return f"best peer: {best.library}"
    return f"best peer: {best.library}; {best.library} / {ALTDIFF} = {plain(best.total / ours.total)}"
