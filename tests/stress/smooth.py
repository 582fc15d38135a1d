"""Random sums of smooth terms, every answer judged by the optimality conditions in long double."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
from altdiff import Status

from experiments.text_table import text_table
from tests.stress.judge import UNANSWERED
from tests.stress.smooth_judge import TOLERANCE, residual
from tests.stress.smooth_programs import GROUP, STRUCTURES, Smooth, make_smooth, stacked
from tests.stress.tally import FALSE, SPLIT, WITHOUT, Finding, Tally
from tests.stress.workers import run_all

ACCEPTED = 5 / 2000  # without an answer
FEW = 2  # the same, in a sample that is too small to speak of shares
COLUMNS = ("count", "solved", WITHOUT, FALSE, SPLIT)


def run(task: tuple[str, int]) -> Tally:
    """Solves a group, one by one and in one batch."""
    structure, first = task
    programs = [make_smooth(structure, first + i) for i in range(GROUP)]
    together = _solve(stacked(programs))
    tally = Tally()
    for i, program in enumerate(programs):
        alone = _solve(program)
        words = {"alone": _judged(program, alone), "batch": _judged(program, together, i)}
        statuses = {"alone": _status(alone), "batch": _status(together, i)}
        _count(tally, structure, first + i, words, statuses)
    return tally


class One:
    """One instance of a batch."""

    def __init__(self, s: Any, i: int) -> None:
        self.x, self.y, self.z, self.z_box = s.x[i], s.y[i], s.z[i], s.z_box[i]


def _solve(program: Smooth) -> Any:
    """The solution, or what was raised."""
    rest: dict[str, Any] = {**program.constraints, "num_threads": 1}
    try:
        return altdiff.solve_convex(program.objective(), **rest)
    except Exception as error:
        return error


def _status(s: Any, i: int | None = None) -> str:
    if isinstance(s, Exception):
        return f"raised {type(s).__name__}: {s}"
    return Status(int(s.status if i is None else s.status[i])).name


def _judged(program: Smooth, s: Any, i: int | None = None) -> str:
    """What is false about an answer. All programs are feasible, convex and bounded."""
    status = _status(s, i)
    if status in (one.name for one in UNANSWERED):
        return ""
    if status != Status.SOLVED.name:
        return status
    with np.errstate(all="ignore"):
        error = residual(program, s if i is None else One(s, i))
    return "" if error <= 1.01 * TOLERANCE else f"SOLVED, residual {error:.1e}"


def _count(tally: Tally, structure: str, seed: int, words: dict[str, str], statuses: dict[str, str]) -> None:
    def enter(column: str, what: str = "") -> None:
        tally.structures[structure, column] += 1
        if what:
            tally.findings.append(Finding(structure, seed, column, what))

    enter("count")
    by_way = ", ".join(f"{way} {status}" for way, status in statuses.items())
    if any(words.values()):
        enter(FALSE, "; ".join(f"{word} ({way})" for way, word in words.items() if word))
    elif any(status != Status.SOLVED.name for status in statuses.values()):
        enter(WITHOUT, by_way)
    else:
        enter("solved")
    if len(set(statuses.values())) > 1:
        enter(SPLIT, by_way)


def died(task: tuple[str, int]) -> Tally:
    """The result of a group whose process ended."""
    structure, first = task
    found = Finding(structure, first, FALSE, "the process died")
    return Tally(Counter({(structure, FALSE): 1, (structure, "count"): GROUP}), findings=[found])


def main(given: argparse.Namespace) -> bool:
    """Runs the part; False if an answer was false, or too many are missing."""
    if given.only is not None:
        return show(given.structure, given.only)
    groups = max(1, round(given.count / GROUP / len(STRUCTURES)))
    firsts = [given.seed // GROUP * GROUP + GROUP * k for k in range(groups)]
    tasks = [(name, first) for first in firsts for name in STRUCTURES]
    tally = Tally()
    for part in run_all(run, died, tasks, given.workers):
        tally.add(part)
    counts = tally.structures
    rows = [[name, *(str(counts[name, column]) for column in COLUMNS)] for name in STRUCTURES]
    rows.append(["all", *(str(tally.total(column)) for column in COLUMNS)])
    text = text_table(["smooth programs", *COLUMNS], rows)
    findings = sorted(tally.findings, key=lambda f: (f.sort, f.structure, f.seed))
    Path("out").mkdir(exist_ok=True)
    Path("out/stress-smooth.txt").write_text("\n".join([text, "", *map(str, findings), ""]))
    print(text)
    shown: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        shown[finding.structure, finding.sort] += 1
        if shown[finding.structure, finding.sort] <= 3:
            print(finding)
    return tally.total(FALSE) == 0 and tally.total(WITHOUT) <= max(FEW, ACCEPTED * tally.total("count"))


def show(structure: str, seed: int) -> bool:
    """Prints one program as code, and what becomes of it."""
    program = make_smooth(structure, seed)
    np.set_printoptions(floatmode="unique", linewidth=100, legacy="1.25")
    print(
        "from numpy import array\nfrom altdiff import Linear, LogSumExp, Quadratic, Separable, solve_convex"
    )
    first = f"Quadratic({program.P!r}, {program.q!r})" if program.P.any() else f"Linear({program.q!r})"
    terms = [first]
    for part in program.parts:
        if part.kind == "log-sum-exp":
            terms.append(f"LogSumExp({part.M!r}, {part.offset!r}, {part.weight[0]!r})")
        else:
            power = f", exponent={part.exponent}" if part.kind == "power" else ""
            terms.append(f"Separable({part.kind!r}, {part.weight!r}, {part.M!r}, {part.offset!r}{power})")
    print("f = " + " + ".join(terms))
    rest = ", ".join(f"{name}={value!r}" for name, value in program.constraints.items())
    print(f"s = solve_convex({', '.join(['f', rest]) if rest else 'f'})")
    s = _solve(program)
    word = _judged(program, s)
    print(f"# {_status(s)} {word and 'FALSE: ' + word}")
    return not word
