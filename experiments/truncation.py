"""The study that the paper lacks: what does truncation buy, when the exact gradient costs one more solve?

    python -m experiments.truncation [--quick]

Gradient error against time for the tolerance of the forward pass and that of the gradient: Algorithm 1, whose
two tolerances are one; altdiff's alternating engine, which has both; and altdiff's default.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from altdiff.torch import QPLayer
from matplotlib.axes import Axes
from tqdm import tqdm

from benchmarks.peers.errors import relative_errors
from benchmarks.peers.layers.base import Tensor, TorchLayer
from benchmarks.peers.problems import Problem, energy_problem, random_problem
from benchmarks.peers.reference import Reference, solve_reference
from benchmarks.peers.workloads import ONLY_Q_OWN
from experiments.cells import seconds
from experiments.command import Budget, budget_of, ended, make_parser, results_of
from experiments.document import Document
from experiments.results import Record, spread
from experiments.unrolled import TruncatedLayer

NAME = "truncation"
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
GRADIENT_TOLERANCES = (1e-1, 1e-2, 1e-4, 1e-8)
BATCH, QUICK_BATCH = 64, 8
MOST_CALLS = 50
FIELDS = ("q", "h", "b")
BLUE, ORANGE, GREEN = "#1f6fb2", "#d9730d", "#3b8a5a"
PROBLEMS = ("energy", "digits")


class Timed(TorchLayer):
    """Any function of the fields."""

    def __init__(self, problem: Problem, threads: int, function: Callable[..., Tensor]) -> None:
        super().__init__(problem, threads)
        self.function = function

    def solve(self) -> Tensor:
        """An absent block is left out."""
        return self.function(**{name: tensor for name, tensor in self.leaves.items() if tensor.numel()})


def plan() -> dict[str, Callable[..., Tensor]]:
    """By the name of the cell."""
    functions: dict[str, Callable[..., Tensor]] = {"altdiff": QPLayer(num_threads=1)}
    for tolerance in TOLERANCES:
        functions[f"algorithm1@{tolerance:.0e}"] = TruncatedLayer(tolerance)
        for inner in GRADIENT_TOLERANCES:
            name = f"alternating@{tolerance:.0e}/{inner:.0e}"
            functions[name] = QPLayer(
                method="alternating", tolerance=tolerance, gradient_tolerance=inner, num_threads=1
            )
    return functions


def measure(problem: Problem, exact: Reference, function: Callable[..., Tensor], budget: Budget) -> Record:
    """Errors, and medians of the times of both passes."""
    layer = Timed(problem, 1, function)  # one thread: the matrices are small
    forward: list[float] = []
    backward: list[float] = []
    began = time.perf_counter()
    while len(forward) < 2 or (len(forward) < MOST_CALLS and time.perf_counter() - began < budget.seconds):
        layer.reset()
        start = time.perf_counter()
        layer.forward()
        middle = time.perf_counter()
        layer.backward()
        forward.append(middle - start)
        backward.append(time.perf_counter() - middle)
    errors = relative_errors(problem, exact, layer.solution(), layer.gradients())
    gradient = max(errors[name] for name in FIELDS if name in errors)
    return {
        "forward": spread(forward[1:]),  # the first warms up
        "backward": spread(backward[1:]),
        "total": spread(np.add(forward, backward)[1:].tolist()),
        "x_error": errors["x"],
        "gradient_error": gradient,
        "rounds": getattr(function, "last_rounds", None),
    }


def make_problem(name: str, quick: bool, seed: int) -> Problem:
    """The layers of the two trainings."""
    batch = QUICK_BATCH if quick else BATCH
    if name == "energy":
        return energy_problem(batch, seed)
    size = (20, 5, 5) if quick else (200, 50, 50)
    return random_problem(*size, batch, ONLY_Q_OWN, seed)


def main(arguments: list[str] | None = None) -> int:
    """Measures what is missing; returns the exit status."""
    given = make_parser(NAME, __doc__).parse_args(arguments)

    def run() -> None:
        results, budget = results_of(given, NAME), budget_of(given)
        for name in PROBLEMS:
            missing = {k: f for k, f in plan().items() if f"{name}/{k}" not in results.cells}
            if not missing:
                continue
            problem = make_problem(name, given.quick, given.seed)
            exact = solve_reference(problem)
            for label, function in tqdm(missing.items(), desc=name, unit="cell", disable=None):
                results.put(f"{name}/{label}", measure(problem, exact, function, budget))

    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        return ended(NAME, run)
    finally:
        torch.set_default_dtype(before)
        torch.set_num_threads(threads)


def grid(record: Record, problem: str) -> list[list[str]]:
    """Forward tolerance down, Algorithm 1 and the gradient tolerances across."""

    def text(label: str) -> str:
        cell = record["cells"].get(f"{problem}/{label}")
        if cell is None:
            return "not run"
        return f"{seconds(1e3 * cell['total']['median'])} ({float(cell['gradient_error']):.0e})"

    rows = [
        [
            f"{t:.0e}",
            text(f"algorithm1@{t:.0e}"),
            *(text(f"alternating@{t:.0e}/{g:.0e}") for g in GRADIENT_TOLERANCES),
        ]
        for t in TOLERANCES
    ]
    return [*rows, ["altdiff's default", text("altdiff"), *["-"] * len(GRADIENT_TOLERANCES)]]


def draw(axes: Axes, record: Record, problem: str) -> None:
    """Lower left is better."""
    styles = {"algorithm1": (ORANGE, "o"), "alternating": (GREEN, "x"), "altdiff": (BLUE, "D")}
    names = {
        "algorithm1": "Algorithm 1",
        "alternating": "alternating engine, finished",
        "altdiff": "altdiff's default",
    }
    for kind, (colour, marker) in styles.items():
        cells = [
            c
            for k, c in record["cells"].items()
            if k.partition("/")[2].partition("@")[0] == kind and k.startswith(problem)
        ]
        times = [1e3 * cell["total"]["median"] for cell in cells]
        errors = [max(float(cell["gradient_error"]), 1e-17) for cell in cells]
        axes.plot(times, errors, marker, color=colour, label=names[kind])
    axes.set(
        xscale="log", yscale="log", xlabel="forward and backward, ms", ylabel="relative error of the gradient"
    )
    axes.legend()


def verdict(record: Record, problem: str) -> str:
    """Whether any truncated cell is faster than the exact default, and what it gets wrong."""
    cells = record["cells"]
    if f"{problem}/altdiff" not in cells:
        return ""
    exact = cells[f"{problem}/altdiff"]["total"]["median"]
    faster = {
        label: cell
        for label, cell in cells.items()
        if label.startswith(f"{problem}/algorithm1") and cell["total"]["median"] < exact
    }
    if not faster:
        return (
            f"On {problem}, truncation is not worth it: at no tolerance is Algorithm 1 faster than "
            "altdiff's exact "
            "solution and gradient."
        )
    label, best = min(faster.items(), key=lambda pair: float(pair[1]["gradient_error"]))
    share = best["total"]["median"] / exact
    return (
        f"On {problem}, Algorithm 1 is faster than the exact layer at {len(faster)} of {len(TOLERANCES)} "
        "tolerances; the "
        f"most accurate of them ({label.partition('@')[2]}) takes {share:.0%} of its time and has a "
        "gradient error of "
        f"{float(best['gradient_error']):.1e}."
    )


def section(page: Document, record: Record) -> None:
    """For the report."""
    page.heading("What does truncation buy?")
    page.paragraph(
        "The paper argues that an early stop saves time and does no harm. Milliseconds of forward and "
        "backward "
        "on one thread and, in brackets, the relative error of the gradient: Algorithm 1 by its tolerance, "
        "and "
        "altdiff's alternating engine by forward tolerance (rows) and gradient tolerance (columns), which "
        "always "
        "finishes on the active set."
    )
    page.paragraph(
        "Algorithm 1 runs here in torch, for the whole batch, differentiated backwards: the same numbers "
        "as the "
        "paper's recursion, and less work. The calls of torch weigh on it at sizes as small as these; what "
        "does not depend on that is the error in brackets."
    )
    for problem in PROBLEMS:
        if not any(name.startswith(f"{problem}/") for name in record["cells"]):
            continue  # not run yet
        page.paragraph(f"The layer of {problem}:")
        header = ["forward tolerance", "Algorithm 1", *(f"gradient {g:.0e}" for g in GRADIENT_TOLERANCES)]
        page.table(header, grid(record, problem))
        page.figure(
            partial(draw, record=record, problem=problem), 2.8, f"Gradient error against time, {problem}."
        )
        page.paragraph(verdict(record, problem))


if __name__ == "__main__":
    sys.exit(main())
