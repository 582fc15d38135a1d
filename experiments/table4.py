"""Table 4: constrained sparsemax with up to 20000 variables.

python -m experiments.table4 --sizes 3000 5000 [--methods altdiff cvxpylayers] [--quick]
"""

from __future__ import annotations

import sys
from functools import partial

from experiments.cells import algorithm_rows, fact_row, fastest_right, method_rows, name_of, theirs
from experiments.command import budget_of, ended, make_parser, results_of
from experiments.document import Document
from experiments.growth import from_sizes
from experiments.published import TABLE4, TABLE4_COSINES
from experiments.race import ALTDIFF, race
from experiments.results import Record
from experiments.sparsemax_layers import ABSOLUTE, AS_QP, METHODS, SparsemaxContest, write_case

NAME = "table4"
SIZES = (3000, 5000, 10000, 20000)
QUICK = (60, 200)
FIELDS = ["x", "derivative"]


def main(arguments: list[str] | None = None) -> int:
    """Measures what is missing; returns the exit status."""
    parser = make_parser(NAME, __doc__)
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args(arguments)

    def run() -> None:
        results, budget = results_of(given, NAME), budget_of(given)
        for n in QUICK if given.quick else given.sizes:
            write = partial(write_case, n, given.seed)
            guess = from_sizes(results.cells, [(str(size), size) for size in SIZES if size < n], n)
            race(results, str(n), given.methods, SparsemaxContest, write, budget, guess)

    return ended(NAME, run)


def verdict(cells: dict[str, Record], rows: list[str]) -> str:
    """By how much the special case is ahead, at the largest size where there is somebody to compare with."""
    others = [method for method in METHODS if not method.startswith(ALTDIFF)]
    for row in reversed(rows):
        ours, peer = cells.get(f"{row}/{ALTDIFF}"), fastest_right(cells, row, others, FIELDS)
        if ours is not None and "total" in ours and peer is not None:
            general = cells.get(f"{row}/{AS_QP}", {}).get("total")
            ratio = peer[1] / ours["total"]["median"]
            text = (
                f"At n = {row} altdiff's sparsemax takes {ratio:.0f} times less than {name_of(peer[0])}, the "
                "fastest other method that is right: it needs O(n) operations and no matrix."
            )
            if general is None:
                return text
            ratio = peer[1] / general["median"]
            return (
                f"{text} The general QPLayer, on sparse tensors, is {ratio:.1f} times as fast as that method."
            )
    return "No other method finished with a right answer."


def section(page: Document, record: Record) -> None:
    """For the report."""
    cells = record["cells"]
    rows = [str(n) for n in (*QUICK, *SIZES) if any(name.startswith(f"{n}/") for name in cells)]
    page.heading("Table 4: constrained sparsemax")
    page.paragraph(
        "min |x - y|^2 with 1'x = 1 and 0 <= x <= u: seconds of forward and backward and, in brackets, the "
        "largest "
        "relative error of x and of the derivative. Algorithm 1 makes dx/db as the paper does, one column; "
        "'of y' is the n x n Jacobian with respect to y, which is what training a network needs. "
        "Data and x are of order 1/n, so that residuals below 1e-6 say little; they are also measured in the "
        "unit of the data, 2/n."
    )
    table = [*method_rows(cells, rows, METHODS, FIELDS), *algorithm_rows(cells, rows)]
    table.append(fact_row(cells, rows, ABSOLUTE, "cosine", ".6f"))
    places = [SIZES.index(int(row)) for row in rows if int(row) in SIZES]
    if len(places) == len(rows):
        table += [theirs(who, [numbers[k] for k in places]) for who, numbers in TABLE4.items()]
        table.append(theirs("cosine, Alt-Diff", [TABLE4_COSINES] * len(rows)))
    page.table(["method", *(f"n = {row}" for row in rows)], table)
    page.paragraph(verdict(cells, rows))


if __name__ == "__main__":
    sys.exit(main())
