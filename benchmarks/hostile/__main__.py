"""Solves and differentiates thousands of hostile QPs, and checks every answer that is said to be SOLVED.

All of them are strictly convex and feasible, and have a solution in double precision; each is made from the
seed and its index alone. Exits with 1 if an answer or gradient is wrong, if anything raises, or if too few
are solved.

    python -m benchmarks.hostile --count 10000 --workers 2
    python -m benchmarks.hostile --only 4711 --save out/4711.npz
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.hostile.kinds import GROUP
from benchmarks.hostile.one import describe, describe_answer, save
from benchmarks.hostile.problems import make_problem
from benchmarks.hostile.report import report
from benchmarks.hostile.runs import CRASH, Outcome, Task, run


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m benchmarks.hostile", description=__doc__, formatter_class=layout
    )
    add = parser.add_argument
    add("--count", type=int, default=10_000, help="so many problems; default 10000")
    add("--seed", type=int, default=0, help="of all problems; default 0")
    add("--workers", type=int, default=1, help="processes that solve; default 1")
    add("--batched", action="store_true", help=f"solve also in batches of up to {GROUP} of equal shape")
    add("--method", help="passed on to solve_qp")
    add("--tolerance", type=float, help="passed on to solve_qp, and what answers are held to; default 1e-8")
    add("--threshold", type=float, default=99.5, help="least percentage to solve; default 99.5")
    add("--gradient-share", type=float, default=0.05, help="of gradients to compare; default 0.05")
    add("--output", type=Path, default=Path("out/hostile.txt"), metavar="FILE", help="for the tables")
    add("--only", type=int, metavar="INDEX", help="this problem, in detail")
    add("--save", type=Path, metavar="FILE", help="with --only: write the problem to an .npz file")
    given = parser.parse_args(arguments)
    if given.save and given.only is None:
        parser.error("--save needs --only")
    if min(given.count, given.workers) < 1 or min(given.seed, given.only or 0) < 0:
        parser.error("--count and --workers must be at least 1, --seed and --only at least 0")
    return given


def settings_of(given: argparse.Namespace) -> dict[str, Any]:
    """What is passed on to solve_qp: by default nothing."""
    settings = {"method": given.method, "tolerance": given.tolerance}
    return {name: value for name, value in settings.items() if value is not None}


def run_all(tasks: list[Task], workers: int) -> Iterator[list[Outcome]]:
    """The outcomes task by task, in order."""
    if workers == 1:
        yield from map(run, tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        yield from pool.map(run, tasks)


def show_one(given: argparse.Namespace) -> int:
    """Prints, and saves, the problem of --only; 0 if the answer has no fault."""
    problem, settings = make_problem(given.seed, given.only), settings_of(given)
    print(describe(problem))
    if given.save:
        save(problem, given.save)
    task = Task(given.seed, given.only, given.only + 1, batched=False, settings=settings, gradient_share=1.0)
    outcome = run(task)[0]
    print(describe_answer(problem, outcome, settings))
    return int(bool(outcome.fault) or outcome.status == CRASH)


def main(arguments: list[str] | None = None) -> int:
    """Prints and writes the tables; returns the exit status."""
    given = parse_arguments(arguments)
    if given.only is not None:
        return show_one(given)
    tasks = [
        Task(
            given.seed, first, min(first + GROUP, given.count),
            given.batched, settings_of(given), given.gradient_share,
        )
        for first in range(0, given.count, GROUP)
    ]  # fmt: skip
    outcomes: list[Outcome] = []
    with tqdm(total=given.count, disable=None, leave=False) as progress:
        for task, part in zip(tasks, run_all(tasks, given.workers), strict=True):
            outcomes.extend(part)
            progress.update(task.end - task.first)
    text, good = report(outcomes, given.threshold)
    print(text, end="")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(text, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
