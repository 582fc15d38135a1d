"""altdiff's forward pass in turns with PIQP, which gives no gradients."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.chain.problems import TINY, Chain, worst_residual
from benchmarks.sets.solvers import SOLVERS, Answer

NAMES = ("altdiff", "piqp")
TIME_LIMIT = 600.0  # seconds
FEWEST = 3  # calls


@dataclass(frozen=True)
class Forward:
    """One solver on one chain."""

    status: str
    seconds: float  # median
    iterations: int
    residual: float  # recomputed from the data
    calls: int


def take_turns(chain: Chain, seconds: float) -> dict[str, Forward]:
    """Both solvers, until each had at least `FEWEST` calls and both together `seconds`."""
    tiny, qp = Chain(TINY).program(), chain.program()
    for name in NAMES:
        SOLVERS[name](tiny, TIME_LIMIT)
    answers: dict[str, list[Answer]] = {name: [] for name in NAMES}
    spent = 0.0
    while spent < seconds or len(answers[NAMES[0]]) < FEWEST:
        for name in NAMES:
            answers[name].append(SOLVERS[name](qp, TIME_LIMIT))
            spent += answers[name][-1].seconds
    found = {}
    for name, calls in answers.items():
        last = calls[-1]
        residual = float("nan") if last.point is None else worst_residual(qp, last.point)
        middle = median(answer.seconds for answer in calls)
        found[name] = Forward(last.status, middle, last.iterations, residual, len(calls))
    return found
