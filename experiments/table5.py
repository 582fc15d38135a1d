"""Table 5: constrained sparsemax for tolerances from 1e-1 to 1e-5.

python -m experiments.table5 [--quick]
"""

from __future__ import annotations

import sys
from functools import partial

from experiments.cells import cell_text, name_of, theirs
from experiments.command import budget_of, ended, make_parser, results_of
from experiments.document import Document
from experiments.growth import from_tolerances
from experiments.published import TABLE5
from experiments.race import ALTDIFF, race
from experiments.results import Record
from experiments.sparsemax_layers import SETTABLE, SparsemaxContest, write_case
from experiments.table2 import TOLERANCES, tolerance_rows
from experiments.table4 import FIELDS, QUICK

NAME = "table5"
VARIABLES = 10000
ROW = "sparsemax"


def main(arguments: list[str] | None = None) -> int:
    """Measures what is missing; returns the exit status."""
    parser = make_parser(NAME, __doc__)
    parser.add_argument("--methods", nargs="+", choices=(ALTDIFF, *SETTABLE), default=[ALTDIFF, *SETTABLE])
    given = parser.parse_args(arguments)

    def run() -> None:
        n = QUICK[0] if given.quick else VARIABLES
        results = results_of(given, NAME)
        results.say(n=n)
        chosen = [method for method in given.methods if method in SETTABLE]
        labels = [f"{method}@{tolerance}" for method in chosen for tolerance in TOLERANCES]
        if ALTDIFF in given.methods:
            labels.insert(0, ALTDIFF)  # exact, without a tolerance
        write, guess = partial(write_case, n, given.seed), from_tolerances(results.cells, ROW)
        race(results, ROW, labels, SparsemaxContest, write, budget_of(given), guess, "tolerance")

    return ended(NAME, run)


def section(page: Document, record: Record) -> None:
    """For the report."""
    cells = record["cells"]
    page.heading("Table 5: sparsemax and tolerances")
    page.paragraph(
        f"The same layer at n = {record['facts']['n']}, for tolerances from 1e-1 to 1e-5: seconds and "
        "errors. "
        "altdiff's sparsemax finds the threshold exactly in finitely many steps, so it has no tolerance to "
        "choose."
    )
    exact = cell_text(cells.get(f"{ROW}/{ALTDIFF}"), FIELDS)
    table = [[f"{name_of(ALTDIFF)} (no tolerance)", *[exact] * len(TOLERANCES)]]
    table += tolerance_rows(cells, ROW, SETTABLE, FIELDS)
    if not record["quick"]:
        table += [theirs(who, numbers) for who, numbers in TABLE5.items()]
    page.table(["method", *TOLERANCES], table)


if __name__ == "__main__":
    sys.exit(main())
