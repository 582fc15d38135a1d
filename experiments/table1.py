"""Table 1: dense quadratic programs of growing size, with the paper's algorithm, altdiff and its peers.

    python -m experiments.table1 --sizes tiny small [--methods altdiff qpth] [--quick]

The authors' code calls the number of equalities m and that of inequalities p, the other way round from the
table's caption; every size is measured in both readings.
"""

from __future__ import annotations

import sys
from functools import partial

from experiments.cells import algorithm_rows, fastest_right, method_rows, theirs
from experiments.command import budget_of, ended, make_parser, results_of
from experiments.dense_qp import METHODS, PEERS, DenseContest, Size, write_case
from experiments.document import Document
from experiments.growth import from_sizes
from experiments.published import TABLE1, TABLE1_COSINES
from experiments.race import ALGORITHM, ALTDIFF, race
from experiments.results import Record

NAME = "table1"
# n, and the two numbers as the caption has them: inequalities, equalities
SIZES: dict[str, Size] = {
    "tiny": (1500, 500, 200),
    "small": (3000, 1000, 500),
    "medium": (5000, 2000, 1000),
    "large": (10000, 5000, 2000),
}
QUICK: dict[str, Size] = {"quick": (120, 40, 16)}
READINGS = ("caption", "code")
FIELDS = ["x", "b"]  # whose errors count: all methods have these


def read(size: Size, reading: str) -> Size:
    """n, inequalities and equalities."""
    n, first, second = size
    return (n, first, second) if reading == "caption" else (n, second, first)


def main(arguments: list[str] | None = None) -> int:
    """Measures what is missing; returns the exit status."""
    parser = make_parser(NAME, __doc__)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args(arguments)

    def run() -> None:
        results, budget = results_of(given, NAME), budget_of(given)
        sizes = QUICK if given.quick else {name: SIZES[name] for name in given.sizes}
        for name, size in sizes.items():
            for reading in READINGS:
                write = partial(write_case, read(size, reading), given.seed)
                smaller = [(f"{other}/{reading}", n) for other, (n, _, _) in SIZES.items() if n < size[0]]
                guess = from_sizes(results.cells, smaller, size[0])
                race(results, f"{name}/{reading}", given.methods, DenseContest, write, budget, guess)

    return ended(NAME, run)


def measured(record: Record) -> dict[str, Size]:
    """The sizes that the file has."""
    there = {name.split("/")[0] for name in record["cells"]}
    return {name: size for name, size in (SIZES | QUICK).items() if name in there}


def add_reading(page: Document, record: Record, reading: str) -> None:
    """One reading of the sizes."""
    cells, sizes = record["cells"], measured(record)
    rows = [f"{name}/{reading}" for name in sizes]
    shapes = ["/".join(map(str, read(size, reading))) for size in sizes.values()]
    who = "The caption's reading" if reading == "caption" else "The reading of the authors' code"
    page.paragraph(f"{who}; columns are variables/inequalities/equalities:")
    table = method_rows(cells, rows, METHODS, FIELDS)
    table += algorithm_rows(cells, rows)
    places = [list(SIZES).index(name) for name in sizes if name in SIZES]
    if len(places) == len(sizes):
        table += [theirs(who, [numbers[k] for k in places]) for who, numbers in TABLE1.items()]
        table.append(theirs("cosine, Alt-Diff", [TABLE1_COSINES[k] for k in places]))
    page.table(["method", *shapes], table)


def verdict(record: Record) -> str:
    """Who is ahead of whom, in sentences made from the cells."""
    cells, sentences = record["cells"], []
    for name in measured(record):
        row = f"{name}/caption"
        ours, peer = cells.get(f"{row}/{ALTDIFF}"), fastest_right(cells, row, PEERS, FIELDS)
        paper = cells.get(f"{row}/{ALGORITHM}")
        if ours is None or "total" not in ours:
            continue
        time = ours["total"]["median"]
        sentence = f"Size {name}: altdiff is"
        parts = []
        if peer is not None:
            parts.append(f"{peer[1] / time:.1f} times as fast as {peer[0]}, the fastest peer that is right")
        if paper is not None and "total" in paper:
            parts.append(
                f"{paper['total']['median'] / time:.1f} times as fast as Algorithm 1 with the paper's stop"
            )
        if parts:
            sentences.append(f"{sentence} {' and '.join(parts)}.")
    return " ".join(sentences)


def section(page: Document, record: Record) -> None:
    """For the report."""
    page.heading("Table 1: dense quadratic programs")
    page.paragraph(
        "Seconds of forward and backward (median), and in brackets the largest relative error of x and of "
        "the "
        "gradient with respect to b, against an exact reference. Algorithm 1 makes the whole Jacobian dx/db, "
        "layers make the gradients of all data by one adjoint. 'Cold' is a first call alone, of a slow "
        "method."
    )
    for reading in READINGS:
        add_reading(page, record, reading)
    page.paragraph(verdict(record))


if __name__ == "__main__":
    sys.exit(main())
