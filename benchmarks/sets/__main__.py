"""Solves every problem of a folder with default settings, and prints a table.

    python -m benchmarks.sets FOLDER --solvers altdiff piqp clarabel
    python -m benchmarks.sets FOLDER --derivatives

Beside each problem: iterations, seconds, the worst of the three residuals on the user's data, before the
finish (the interior point alone) and after, the error of the objective against objectives.csv in the folder
(if there is one), and the time in units of others'. On quick problems the solvers take turns, and seconds are
medians without the first call, after which altdiff knows the pattern of a sparse problem.

With --derivatives: whether the adjoint is finite, the rounds that it needs, and its error against central
differences, sparse LU, and other tolerances of the forward pass.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path
from statistics import median

import altdiff
from altdiff import QuadraticProgram
from tqdm import tqdm

from benchmarks.sets.derivative_table import derivative_table
from benchmarks.sets.derivatives import check
from benchmarks.sets.solvers import SOLVERS, Answer, answers_in_turns, residual_before_finish
from experiments.text_table import text_table

SUFFIXES = (".mat", ".npz", ".qps", ".mps", ".qps.gz", ".mps.gz")
HEADER = [
    *("problem", "n", "m", "p", "status", "iterations", "seconds"),
    *("before finish", "residual", "objective error", "flags"),
]
SOLVED = {"SOLVED", "PIQP_SOLVED", "Solved"}


def references(folder: Path) -> dict[str, float]:
    """Certified objectives, or reported ones, by name."""
    table = folder / "objectives.csv"
    if not table.exists():
        return {}
    with table.open() as lines:
        return {row["name"]: float(row["certified"] or row["report_1997"]) for row in csv.DictReader(lines)}


def row(qp: QuadraticProgram, reference: float, answers: dict[str, Answer], before: float) -> list[str]:
    """One line of the table, without the name."""
    ours = answers["altdiff"]
    error = abs(ours.objective - reference) / max(1.0, abs(reference))
    flags = ("degenerate " if ours.degenerate else "") + ("" if ours.unique else "not unique")
    others = [ours.seconds / answers[name].seconds for name in answers if name != "altdiff"]
    return [
        *map(str, qp.sizes.values()),
        ours.status,
        str(ours.iterations),
        f"{ours.seconds:.4f}",
        f"{before:.0e}",
        f"{ours.residual:.0e}",
        "-" if math.isnan(error) else f"{error:.0e}",
        flags.strip(),
        *(f"{ratio:.2f}" for ratio in others),
    ]


def summary(answers: list[dict[str, Answer]], solvers: list[str]) -> str:
    """How many are solved, and the median ratio of times."""
    ours = [answer["altdiff"] for answer in answers]
    solved = [answer for answer in ours if answer.status == "SOLVED"]
    lines = [
        f"{len(solved)} of {len(ours)} SOLVED, {sum(a.residual <= 1e-9 for a in solved)} of them to 1e-9"
    ]
    for name in solvers:
        both = [a for a in answers if a["altdiff"].status == "SOLVED" and a[name].status in SOLVED]
        if name == "altdiff" or not both:
            continue
        ratio = median(a["altdiff"].seconds / a[name].seconds for a in both)
        first = median(a["altdiff"].first / a[name].first for a in both)
        count = sum(a[name].status in SOLVED for a in answers)
        lines.append(
            f"{name}: {count} solved; altdiff's time / {name}'s, median over {len(both)}: {ratio:.2f}; "
            f"of the first calls: {first:.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sets", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=["altdiff"])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--skip", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--derivatives", action="store_true", help="check derivatives instead")
    parser.add_argument("--time-limit", type=float, default=600.0, metavar="SECONDS")
    options = parser.parse_args()
    paths = sorted(p for p in options.folder.iterdir() if p.name.endswith(SUFFIXES))
    names = {path: path.name.split(".")[0] for path in paths}
    paths = [
        p for p in paths if names[p] not in options.skip and (not options.only or names[p] in options.only)
    ]
    if options.derivatives:
        found = {names[path]: check(altdiff.read_qp(path), options.time_limit) for path in tqdm(paths)}
        print(derivative_table(found))
        return
    known, lines, everything = references(options.folder), [], []
    for path in tqdm(paths):
        qp = altdiff.read_qp(path)
        answers = answers_in_turns(qp, options.solvers, options.time_limit)
        everything.append(answers)
        before = residual_before_finish(qp, options.time_limit)
        lines.append([names[path], *row(qp, known.get(names[path], math.nan), answers, before)])
    print(text_table([*HEADER, *(f"/ {name}" for name in options.solvers if name != "altdiff")], lines))
    print(summary(everything, options.solvers))


if __name__ == "__main__":
    main()
