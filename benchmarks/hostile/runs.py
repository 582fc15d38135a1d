"""Solves the problems, alone or in batches, and says what became of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import altdiff
import numpy as np

from benchmarks.hostile.checks import gradient_error, not_finite, residuals
from benchmarks.hostile.kinds import Kind
from benchmarks.hostile.problems import FIELDS, Point, Problem, make_problem
from benchmarks.hostile.rows import Array

CRASH, WRONG, NOT_FINITE, INACCURATE = "CRASH", "wrong", "gradient not finite", "gradient inaccurate"
SOLVED = altdiff.Status.SOLVED.name


@dataclass(frozen=True)
class Task:
    """Consecutive problems, and how to solve them."""

    seed: int
    first: int
    end: int
    batched: bool
    settings: dict[str, Any]
    gradient_share: float


@dataclass(frozen=True)
class Outcome:
    """What became of one problem."""

    index: int
    kinds: frozenset[Kind]
    batched: bool
    status: str  # the name of a Status, or CRASH
    milliseconds: float
    iterations: int = 0
    residual: float = 0.0  # the worst, recomputed, of a SOLVED answer
    compared: bool = False  # whether its gradient was
    fault: str = ""  # of a SOLVED answer: WRONG, NOT_FINITE or INACCURATE
    message: str = ""


def run(task: Task) -> list[Outcome]:
    """Solves each problem of a task by itself, then all of them in batches if the task says so."""
    problems = [make_problem(task.seed, index) for index in range(task.first, task.end)]
    outcomes = [outcome for problem in problems for outcome in solve([problem], task, batched=False)]
    if task.batched:
        for _, batch in groupby(problems, key=lambda problem: problem.shape):
            outcomes.extend(solve(list(batch), task, batched=True))
    return outcomes


def solve(problems: list[Problem], task: Task, batched: bool) -> Iterator[Outcome]:
    """Solves one problem, or several of one shape in one call; an exception is the fate of all of them."""
    x_bar = np.stack([cotangent(problem) for problem in problems])
    data = arguments(problems, batched)
    start = time.perf_counter()
    try:
        solution = altdiff.solve_qp(**data, **task.settings)
        milliseconds = 1e3 * (time.perf_counter() - start) / len(problems)
        gradient = solution.vjp(x_bar if batched else x_bar[0])
    except Exception as error:
        milliseconds = 1e3 * (time.perf_counter() - start) / len(problems)
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        for problem in problems:
            yield Outcome(problem.index, problem.kinds, batched, CRASH, milliseconds, message=message)
        return
    for k, problem in enumerate(problems):
        mine = k if batched else ...
        yield judge(problem, task, Answer.of(solution, gradient, mine), x_bar[k], milliseconds, batched)


@dataclass(frozen=True)
class Answer:
    """One instance's part of a solution."""

    status: altdiff.Status
    point: Point
    iterations: int
    degenerate: bool
    gradient: altdiff.Gradient

    @classmethod
    def of(cls, solution: altdiff.Solution, gradient: altdiff.Gradient, mine: Any) -> Answer:
        """`mine` is the place in the batch, or an ellipsis where there is none."""
        status, iterations, degenerate = (
            np.asarray(value)[mine].item()
            for value in (solution.status, solution.iterations, solution.degenerate)
        )
        point = Point(*(part[mine] for part in (solution.x, solution.y, solution.z, solution.z_box)))
        bars = (None if part is None else np.asarray(part)[mine] for part in gradient)
        return cls(altdiff.Status(status), point, iterations, degenerate, altdiff.Gradient(*bars))


def judge(
    problem: Problem, task: Task, answer: Answer, x_bar: Array, milliseconds: float, batched: bool
) -> Outcome:
    """Holds the answer against the problem."""
    common = (problem.index, problem.kinds, batched, answer.status.name, milliseconds, answer.iterations)
    if answer.status != altdiff.Status.SOLVED:
        return Outcome(*common)
    found = residuals(problem, answer.point)
    if not found.within(task.settings.get("tolerance", 1e-8)):
        return Outcome(*common, found.worst, fault=WRONG, message=str(found))
    if bad := not_finite(problem, answer.gradient):
        return Outcome(*common, found.worst, fault=NOT_FINITE, message=f"gradient of {', '.join(bad)}")
    error = None
    if not answer.degenerate and sampled(problem, task.gradient_share):
        error = gradient_error(problem, answer.point, x_bar, np.asarray(answer.gradient.q))
    if error is not None and not error <= 1.0:
        message = f"the error of q's gradient is {error:.1e} times what is allowed"
        return Outcome(*common, found.worst, compared=True, fault=INACCURATE, message=message)
    return Outcome(*common, found.worst, compared=error is not None)


def arguments(problems: list[Problem], batched: bool) -> dict[str, Any]:
    """The fields that are there in any of the problems, with a batch dimension or without."""
    given = {name for problem in problems for name in problem.given()}
    stacked = {
        name: np.stack([getattr(problem, name) for problem in problems]) for name in FIELDS if name in given
    }
    return stacked if batched else {name: value[0] for name, value in stacked.items()}


def cotangent(problem: Problem) -> Array:
    """A gradient of some loss with respect to x."""
    return np.random.default_rng([problem.seed, 2, problem.index]).normal(size=problem.q.size)


def sampled(problem: Problem, share: float) -> bool:
    """Whether this problem is among those whose gradient is compared."""
    return bool(np.random.default_rng([problem.seed, 3, problem.index]).uniform() < share)
