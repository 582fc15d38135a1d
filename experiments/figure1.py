"""Figure 1: the Jacobian of Algorithm 1 after k rounds, its size and its angle to the exact one.

python -m experiments.figure1 [--quick]
"""

from __future__ import annotations

import sys

import altdiff
import numpy as np
from altdiff import alternating_differentiation
from matplotlib.axes import Axes
from tqdm import tqdm

from benchmarks.peers.problems import FIELDS, Array, Problem
from experiments.algorithm1 import RHO
from experiments.command import ended, make_parser, results_of
from experiments.dense_qp import paper_case
from experiments.document import Document
from experiments.race import cosine
from experiments.results import Record, Results
from experiments.table1 import QUICK, SIZES

NAME = "figure1"
ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28, 33, 38, 44, 50, 60, 70, 85, 100)
CELL = "curve"
GOOD = 0.999  # what the paper reports
BLUE, ORANGE = "#1f6fb2", "#d9730d"


def after(rounds: int, problem: Problem) -> tuple[Array, Array]:
    """x and dx/db after so many rounds: the recursion again, stopped there."""
    data = {name: getattr(problem, name) for name in FIELDS}
    result = alternating_differentiation(
        **data, wrt="b", rho=RHO, tolerance=1e-300, stopping="residual", max_iterations=rounds
    )
    return np.asarray(result.x), np.asarray(result.jacobian)


def measure(results: Results, problem: Problem) -> None:
    """One cell a number of rounds, so that an interruption loses little."""
    data = {name: getattr(problem, name) for name in FIELDS}
    missing = [k for k in ROUNDS if f"{CELL}/{k}" not in results.cells]
    if not missing:
        return
    solution = altdiff.solve_qp(**data)
    exact = np.asarray(solution.jacobian("b"))
    results.say(exact_norm=float(np.linalg.norm(exact)))
    for k in tqdm(missing, desc=NAME, unit="point", disable=None):
        x, jacobian = after(k, problem)
        results.put(
            f"{CELL}/{k}",
            {
                "norm": float(np.linalg.norm(jacobian)),
                "cosine": cosine(jacobian, exact),
                "error": float(np.linalg.norm(jacobian - exact) / np.linalg.norm(exact)),
                "x_error": float(np.linalg.norm(x - solution.x) / np.linalg.norm(solution.x)),
            },
        )


def main(arguments: list[str] | None = None) -> int:
    """Measures what is missing; returns the exit status."""
    given = make_parser(NAME, __doc__).parse_args(arguments)

    def run() -> None:
        size = QUICK["quick"] if given.quick else SIZES["tiny"]
        results = results_of(given, NAME)
        results.say(size=size)
        measure(results, paper_case(size, given.seed))

    return ended(NAME, run)


def rounds_of(record: Record) -> list[int]:
    """Those that were measured."""
    return [k for k in ROUNDS if f"{CELL}/{k}" in record["cells"]]


def curve(record: Record, what: str) -> list[float]:
    """One number for each of them."""
    return [float(record["cells"][f"{CELL}/{k}"][what]) for k in rounds_of(record)]


def draw_cosine(axes: Axes, record: Record) -> None:
    """1 - cosine and the relative errors, on a logarithmic scale: near 1 nothing else can be seen."""
    gap = np.maximum(1.0 - np.array(curve(record, "cosine")), 1e-16)
    axes.plot(rounds_of(record), gap, color=BLUE, label="1 - cosine to the exact Jacobian")
    axes.plot(rounds_of(record), curve(record, "error"), color=ORANGE, label="relative error of dx/db")
    axes.plot(
        rounds_of(record), curve(record, "x_error"), color=ORANGE, linestyle="--", label="relative error of x"
    )
    axes.set(xlabel="rounds", yscale="log")
    axes.legend()


def draw_norm(axes: Axes, record: Record) -> None:
    """The paper's left panel."""
    axes.plot(rounds_of(record), curve(record, "norm"), color=BLUE, label="norm of dx/db after k rounds")
    axes.axhline(record["facts"]["exact_norm"], color=ORANGE, linestyle=":", label="exact")
    axes.set(xlabel="rounds")
    axes.legend()


def section(page: Document, record: Record) -> None:
    """For the report."""
    n, m, p = record["facts"]["size"]
    cosines, errors = curve(record, "cosine"), curve(record, "error")
    last = rounds_of(record)[-1]
    reached = next((k for k, value in zip(rounds_of(record), cosines, strict=True) if value >= GOOD), None)
    page.heading("Figure 1: convergence of the Jacobian")
    page.paragraph(
        f"Algorithm 1 on {n} variables, {m} inequalities and {p} equalities, rho = {RHO:g}. The Jacobian "
        "converges, as "
        f"the paper says: its cosine passes {GOOD} "
        + (f"after {reached} rounds" if reached else f"in none of {last} rounds")
        + f" and is {cosines[-1]:.9f} after {last}, where the relative error is {errors[-1]:.1e}."
    )
    page.paragraph(
        "A cosine says little: 0.999 allows an error of 4.5 % of the gradient at right angles to it, and "
        "does not "
        "see its length at all."
    )
    page.figure(lambda axes: draw_norm(axes, record), 2.6, "Norm of dx/db after k rounds of Algorithm 1.")
    page.figure(
        lambda axes: draw_cosine(axes, record), 2.8, "Distance from the exact Jacobian after k rounds."
    )


if __name__ == "__main__":
    sys.exit(main())
