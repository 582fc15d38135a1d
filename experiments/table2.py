"""Table 2: the same dense problem for tolerances from 1e-1 to 1e-5.

    python -m experiments.table2 [--methods altdiff algorithm1] [--quick]

A looser tolerance makes Algorithm 1 faster and wrong. altdiff finishes on the active set whatever the
tolerance, so that its time and its error hardly depend on it.
"""

from __future__ import annotations

import sys
from functools import partial

from experiments.cells import cell_text, name_of, theirs, worst
from experiments.command import budget_of, ended, make_parser, results_of
from experiments.dense_qp import SETTABLE, DenseContest, write_case
from experiments.document import Document
from experiments.growth import from_tolerances
from experiments.published import TABLE2
from experiments.race import ALGORITHM, ALTDIFF, race
from experiments.results import Record
from experiments.table1 import FIELDS, QUICK, SIZES

NAME = "table2"
TOLERANCES = ("1e-1", "1e-2", "1e-3", "1e-4", "1e-5")
METHODS = (ALTDIFF, ALGORITHM, *SETTABLE)
ROW = "caption"


def main(arguments: list[str] | None = None) -> int:
    """Measures what is missing; returns the exit status."""
    parser = make_parser(NAME, __doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tolerances", nargs="+", choices=TOLERANCES, default=list(TOLERANCES))
    given = parser.parse_args(arguments)

    def run() -> None:
        size = QUICK["quick"] if given.quick else SIZES["small"]
        results = results_of(given, NAME)
        results.say(size=size)
        labels = [f"{method}@{tolerance}" for method in given.methods for tolerance in given.tolerances]
        write = partial(write_case, size, given.seed)
        guess = from_tolerances(results.cells, ROW)
        race(results, ROW, labels, DenseContest, write, budget_of(given), guess, "tolerance")

    return ended(NAME, run)


def tolerance_rows(
    cells: dict[str, Record], row: str, methods: tuple[str, ...], fields: list[str]
) -> list[list[str]]:
    """A line a method, a column a tolerance."""
    table = []
    for method in methods:
        found = [cells.get(f"{row}/{method}@{tolerance}") for tolerance in TOLERANCES]
        if any(cell is not None for cell in found):
            table.append([name_of(method), *(cell_text(cell, fields) for cell in found)])
    return table


def error_range(cells: dict[str, Record], method: str) -> str:
    """Over the tolerances that were run."""
    names = [f"{ROW}/{method}@{tolerance}" for tolerance in TOLERANCES]
    errors = [worst(cells[name], FIELDS) for name in names if "errors" in cells.get(name, {})]
    return f"{min(errors):.0e} to {max(errors):.0e}" if errors else "unknown"


def section(page: Document, record: Record) -> None:
    """For the report."""
    (n, m, p), cells = record["facts"]["size"], record["cells"]
    page.heading("Table 2: tolerances")
    page.paragraph(
        f"The dense problem with {n} variables, {m} inequalities and {p} equalities: seconds and, in "
        "brackets, "
        "the largest relative error of x and of the gradient. Over these tolerances Algorithm 1's errors are "
        f"{error_range(cells, ALGORITHM)}, altdiff's {error_range(cells, ALTDIFF)}."
    )
    table = tolerance_rows(cells, ROW, METHODS, FIELDS)
    if not record["quick"]:
        table += [theirs(who, numbers) for who, numbers in TABLE2.items()]
    page.table(["method", *TOLERANCES], table)


if __name__ == "__main__":
    sys.exit(main())
