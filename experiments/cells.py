"""Cells of a table as text: accuracy next to time, or the reason why there is neither."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from experiments.published import Figure
from experiments.race import ALGORITHM, ALTDIFF, RESIDUAL
from experiments.results import Record

WRONG = 1e-2  # an error above which a number is no answer to the question
NAMES = {
    ALTDIFF: "altdiff",
    ALGORITHM: "Algorithm 1, the paper's stop",
    RESIDUAL: "Algorithm 1, residuals below 1e-6",
    "qpth": "qpth (OptNet)",
    "proxqp": "ProxQP",
    "moreau": "Moreau",
    "jaxopt": "JAXopt",
    "osqp": "OSQP",
    "proxqp-omp": "ProxQP, omp_parallel",
    "altdiff-qp": "altdiff, sparse QPLayer",
    "algorithm1-absolute": "Algorithm 1, residuals below 1e-6, not in units of 2/n",
    "algorithm1-y": "Algorithm 1 of y, the paper's stop",
}
THEIRS = "published, another machine"
Row = list[str]


def name_of(method: str) -> str:
    """For the first column."""
    name, _, tolerance = method.partition("@")
    if name == "truncated":
        return f"Algorithm 1, stopped at {tolerance}"
    return NAMES.get(method, method)


def theirs(who: str, figures: Iterable[Figure]) -> Row:
    """A row of the authors' own figures, said to be theirs."""
    texts = (
        "cannot" if figure is None else figure if isinstance(figure, str) else f"{figure:g}"
        for figure in figures
    )
    return [f"{who} ({THEIRS})", *texts]


def seconds(value: float) -> str:
    """Three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 1e-3 else f"{value:.1e}"


def with_quartiles(entry: Record) -> str:
    """A median, and its quartiles where there are enough calls for them to say something."""
    if entry["count"] < 4:
        return seconds(entry["median"])
    return f"{seconds(entry['median'])} [{seconds(entry['low'])}, {seconds(entry['high'])}]"


def worst(cell: Record, fields: Iterable[str]) -> float:
    """The largest relative error among those of x and of some gradients; NaN if one is, or there are none."""
    errors = [float(cell["errors"][name]) for name in fields if name in cell["errors"]]
    return float(np.max(errors)) if errors else float("nan")


def is_right(cell: Record | None, fields: Iterable[str]) -> bool:
    """Whether a cell has numbers, and they answer the question."""
    return cell is not None and "total" in cell and worst(cell, fields) <= WRONG


def cell_text(cell: Record | None, fields: Iterable[str], quartiles: bool = False) -> str:
    """Seconds and error; or what went wrong. Cold: the first call alone, because it was slow."""
    if cell is None:
        return "not run"
    if "problem" in cell:
        return str(cell["problem"])
    error, total = worst(cell, fields), cell["total"]
    time = with_quartiles(total) if quartiles else seconds(total["median"])
    if cell.get("cold"):
        time += " cold"
    if "threads" in cell:
        time += " on one thread"
    return f"{time} ({error:.0e})" if error <= WRONG else f"{time}, wrong (error {error:.2g})"


def method_rows(
    cells: dict[str, Record], rows: list[str], methods: Iterable[str], fields: Row, quartiles: bool = False
) -> list[Row]:
    """A line a method, a column a problem; methods that were run nowhere are left out."""
    table = []
    for method in methods:
        found = [cells.get(f"{row}/{method}") for row in rows]
        if any(cell is not None for cell in found):
            table.append([name_of(method), *(cell_text(cell, fields, quartiles) for cell in found)])
    return table


def fact_row(cells: dict[str, Record], rows: list[str], method: str, fact: str, form: str) -> Row:
    """Something else that is known of a method."""
    found = (cells.get(f"{row}/{method}", {}).get(fact) for row in rows)
    return [f"{fact}, {name_of(method)}", *("-" if value is None else format(value, form) for value in found)]


def algorithm_rows(cells: dict[str, Record], rows: list[str]) -> list[Row]:
    """How far Algorithm 1 went: rounds, and the angle of its gradient to the exact one."""
    asked = [
        (m, fact, form) for fact, form in (("rounds", "d"), ("cosine", ".6f")) for m in (ALGORITHM, RESIDUAL)
    ]
    return [fact_row(cells, rows, *each) for each in asked]


def fastest_right(
    cells: dict[str, Record], row: str, methods: Iterable[str], fields: Row
) -> tuple[str, float] | None:
    """The method with the smallest median among those that are right, and its seconds."""
    times = {
        method: float(cell["total"]["median"])
        for method in methods
        if (cell := cells.get(f"{row}/{method}")) is not None and is_right(cell, fields)
    }
    return min(times.items(), key=lambda pair: pair[1]) if times else None
