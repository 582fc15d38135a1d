"""Tiny programs of many structures, every one of them handed over in every way."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from altdiff import Status

from experiments.text_table import text_table
from tests.stress import map_programs, plain, scales  # noqa: F401  (they enter their structures)
from tests.stress.judge import UNANSWERED, judged
from tests.stress.programs import Program
from tests.stress.structures import CERTIFICATES, FULL, GROUP, STRUCTURES, make_group
from tests.stress.tally import COLUMNS, FALSE, FLAGS, SPLIT, WITHOUT, Finding, Tally, rows_of
from tests.stress.truth import truth
from tests.stress.ways import WAYS, Answers, go
from tests.stress.workers import run_all, survives

ACCEPTED = 0.002  # programs without an answer
SHOWN_FALSE, SHOWN_OTHERS = 10, 1  # findings of each structure and sort; the file has all of them


@dataclass(frozen=True)
class Task:
    """A group of programs, and the ways that it goes."""

    structure: str
    first: int
    ways: tuple[str, ...]


def run(task: Task) -> Tally:
    """Solves a group in all ways and judges every answer."""
    programs = make_group(task.structure, task.first)
    answers = {way: go(way, programs, task.first) for way in task.ways}
    words = {way: judged(answer) for way, answer in answers.items()}
    tally = Tally()
    for way, answer in answers.items():
        _count_way(tally, way, answer, words[way])
    for i in range(GROUP):
        seed = task.first + i
        mine = {
            way: np.flatnonzero(answer.own & (answer.seeds == seed))[0] for way, answer in answers.items()
        }
        false = {
            way: next((word for k, word in enumerate(words[way]) if word and answer.seeds[k] == seed), "")
            for way, answer in answers.items()
        }
        statuses = {way: int(answers[way].status[k]) for way, k in mine.items()}
        flags = {
            way: (bool(answers[way].unique[k]), bool(answers[way].degenerate[k]))
            for way, k in mine.items()
            if statuses[way] == Status.SOLVED
        }
        false = {way: word for way, word in false.items() if word} | _untrue(
            task.structure, programs[i], statuses
        )
        _count(tally, task.structure, seed, statuses, false, flags)
    return tally


def died(task: Task) -> Tally:
    """The result of a group whose process ended: whose fault it was, as far as that can be told."""
    programs = make_group(task.structure, task.first)
    tally = Tally(Counter({(task.structure, "count"): GROUP}))
    for way in task.ways:
        seeds = [
            i for i in range(GROUP) if not survives(partial(go, way, programs[i : i + 1], task.first + i))
        ]
        if not seeds and not survives(partial(go, way, programs, task.first)):
            seeds = [0]
        for i in seeds:
            tally.structures[task.structure, FALSE] += 1
            tally.findings.append(Finding(task.structure, task.first + i, FALSE, f"the process died ({way})"))
    return tally


def _untrue(structure: str, program: Program, statuses: dict[str, int]) -> dict[str, str]:
    """The ways whose status is not what exact arithmetic says."""
    exact = STRUCTURES[structure].exact
    claims = {Status.PRIMAL_INFEASIBLE, Status.DUAL_INFEASIBLE, Status.NONCONVEX}
    if exact == FULL:
        claims.add(Status.SOLVED)
    if exact not in (FULL, CERTIFICATES) or claims.isdisjoint(statuses.values()):
        return {}
    allowed = truth(program).statuses()
    names = "/".join(sorted(status.name for status in allowed))
    return {
        way: f"{Status(status).name}, exactly {names}"
        for way, status in statuses.items()
        if status in claims and status not in allowed
    }


def _count(
    tally: Tally,
    structure: str,
    seed: int,
    statuses: dict[str, int],
    false: dict[str, str],
    flags: dict[str, tuple[bool, bool]],
) -> None:
    """Enters one program."""

    def enter(column: str, what: str = "") -> None:
        tally.structures[structure, column] += 1
        if what:
            tally.findings.append(Finding(structure, seed, column, what))

    enter("count")
    by_way = _grouped({way: _name(status) for way, status in statuses.items()})
    first = next(iter(statuses.values()))
    if false:
        enter(FALSE, _grouped(false))
    elif any(status in UNANSWERED for status in statuses.values()):
        enter(WITHOUT, by_way)
    elif first in COLUMNS:
        enter(COLUMNS[Status(first)])
    if len(set(statuses.values())) > 1:
        enter(SPLIT, by_way)
    if len(set(flags.values())) > 1:
        enter(FLAGS, _grouped({way: f"unique={u} degenerate={d}" for way, (u, d) in flags.items()}))


def _name(status: int) -> str:
    return Status(status).name if status >= 0 else "RAISED"


def _grouped(words: dict[str, str]) -> str:
    """Ways that agree together."""
    ways: dict[str, list[str]] = {}
    for way, word in words.items():
        ways.setdefault(word, []).append(way)
    return "; ".join(f"{word} ({' '.join(by)})" for word, by in ways.items())


def _count_way(tally: Tally, way: str, answers: Answers, words: list[str]) -> None:
    for status, word in zip(answers.status.tolist(), words, strict=True):
        tally.ways[way, "count"] += 1
        column = COLUMNS.get(status, WITHOUT)
        tally.ways[way, FALSE if word else column] += 1


def report(tally: Tally, structures: list[str], ways: Iterable[str]) -> tuple[str, bool]:
    """The tables, and whether no answer was false and few are missing."""
    head = ["structure", "count", *COLUMNS.values(), WITHOUT, FALSE, SPLIT, FLAGS]
    counted = [name for name in structures if STRUCTURES[name].counts]
    missing = sum(tally.structures[name, WITHOUT] for name in counted)
    programs = sum(tally.structures[name, "count"] for name in counted)
    false = tally.total(FALSE)
    share = missing / max(programs, 1)
    good = false == 0 and share <= ACCEPTED
    others = ", ".join(name for name in structures if name not in counted) or "none"
    lines = [
        text_table(head, rows_of(tally.structures, structures)),
        "",
        text_table(["solves by way", *head[1:]], rows_of(tally.ways, list(ways))),
        "",
        f"{false} false",
        f"{missing} of {programs} without an answer: {share:.3%} (at most {ACCEPTED:.1%}), beside {others}",
        f"{tally.total(SPLIT)} whose status, {tally.total(FLAGS)} whose flags depend on the way",
    ]
    return "\n".join(lines), good


def main(given: argparse.Namespace) -> bool:
    """Runs the part; False if an answer was false, or too many are missing."""
    names = given.structures or list(STRUCTURES)
    ways = tuple(given.ways or WAYS)
    groups = max(1, round(given.count / GROUP / len(names)))
    first = given.seed // GROUP * GROUP
    tasks = [Task(name, first + GROUP * k, ways) for k in range(groups) for name in names]
    tally = Tally()
    for part in run_all(run, died, tasks, given.workers):
        tally.add(part)
    text, good = report(tally, names, ways)
    tally.findings.sort(key=lambda f: (f.sort, f.structure, f.seed))
    Path("out").mkdir(exist_ok=True)
    Path("out/stress-tiny.txt").write_text("\n".join([text, "", *map(str, tally.findings), ""]))
    print(text)
    _show(tally.findings)
    return good


def _show(findings: list[Finding]) -> None:
    """Some of what was found: of false answers more than of others."""
    shown: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        key = finding.structure, finding.sort
        shown[key] += 1
        if shown[key] <= (SHOWN_FALSE if finding.sort == FALSE else SHOWN_OTHERS):
            print(finding)
    if findings:
        print("all of them: out/stress-tiny.txt; one of them: python -m tests.stress one STRUCTURE SEED")
