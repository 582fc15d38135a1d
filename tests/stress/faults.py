"""Interrupts, time limits, too little memory, many threads, forks: never a crash, always in time."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np

from experiments.text_table import text_table
from tests.stress.loads import LOADS
from tests.stress.together import fork_faults, thread_faults

ANSWERED = 0.2  # seconds after an interrupt, and one factorisation
OVERSHOOT = 0.1  # seconds past a limit, or one factorisation
BUSY = 10.0  # times as much where others may use the machine, as in CI
PATIENCE = 120.0  # what takes longer has no answer
STARVED = (
    "dense batch", "dense batch, shared", "dense, one", "dense, singular P", "sparse, one", "sparse batch",
    "convex batch", "jacobian, dense", "vjp, dense batch", "budget",
)  # fmt: skip
QUICK = ("dense batch, tiny", "sparse batch", "jacobian, sparse")


def main(given: argparse.Namespace) -> bool:
    """Runs the part; False if something crashed, was late, or depends on threads or forks."""
    names = list(LOADS) if given.count > 1 else list(QUICK)
    slack = 1.0 if given.count > 1 else BUSY
    good = [
        _alone("threads", thread_faults()),
        _alone("fork", fork_faults()),
        interrupts(names, slack),
        limits([name for name in names if LOADS[name].limited], slack),
        memory([name for name in names if name in STARVED], given.count),
    ]
    return all(good)


def _alone(name: str, faults: list[str]) -> bool:
    print(f"{name}: {'; '.join(faults) or 'as alone'}", flush=True)
    return not faults


def _start(name: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.stress.loads", name, *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


def _finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the load reports, or how its process ended."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"words": f"no answer in {PATIENCE:.0f} s", "seconds": PATIENCE, "usable": False}
    try:
        return dict(json.loads(out.splitlines()[-1]))
    except (IndexError, ValueError):
        last = (err.strip().splitlines() or ["nothing said"])[-1][:90]
        return {"words": f"exit {process.returncode}: {last}", "seconds": 0.0, "usable": False}


def _begun(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.readline()


def factorisation(n: int) -> float:
    """Seconds of one factorisation of that size, measured here and now."""
    matrix = np.eye(min(n, 2000)) + 1.0
    begin = time.perf_counter()
    np.linalg.cholesky(matrix)
    return (time.perf_counter() - begin) * (n / len(matrix)) ** 3


def interrupts(names: list[str], slack: float = 1.0) -> bool:
    """How long each path takes to answer Ctrl-C."""
    rows, good = [], True
    for name in names:
        process = _start(name, "--endless")
        _begun(process)
        time.sleep(0.7)
        sent = time.time()
        os.kill(process.pid, signal.SIGINT)
        report = _finish(process)
        waited = report.get("at", time.time()) - sent
        allowed = slack * (ANSWERED + factorisation(LOADS[name].largest))
        fine = report["words"] == "KeyboardInterrupt" and report["usable"] and waited <= allowed
        good &= fine
        rows.append([name, f"{waited:.2f}", f"{allowed:.2f}", report["words"], "" if fine else "LATE"])
    print(text_table(["interrupt", "answered", "allowed", "with", ""], rows), flush=True)
    return good


def limits(names: list[str], slack: float = 1.0) -> bool:
    """How far past time_limit each path goes, and that it is never slower than without.

    The clock of a limit starts when the arrays are in the core: what a call takes that has no time at all,
    for copies, is not counted.
    """
    rows, good = [], True
    for name in names:
        free = _finish(_start(name))
        empty = _finish(_start(name, "--limit", "1e-9"))["seconds"]
        for share in (0.02, 0.3):
            limit = max(0.01, share * free["seconds"])
            held = _finish(_start(name, "--limit", str(limit)))
            over = held["seconds"] - limit - empty
            allowed = slack * max(OVERSHOOT, factorisation(LOADS[name].largest))
            slower = held["seconds"] > 1.25 * free["seconds"] + slack * 0.1
            fine = held["usable"] and over <= allowed and not slower
            good &= fine
            cells = [f"{free['seconds']:.2f}", f"{limit:.2f}", f"{held['seconds']:.2f}", f"{over:.2f}"]
            rows.append([name, *cells, f"{allowed:.2f}", held["words"], "" if fine else "LATE"])
    head = ["time limit", "without", "limit", "took", "over", "allowed", "with", ""]
    print(text_table(head, rows), flush=True)
    return good


def memory(names: list[str], count: int) -> bool:
    """Limits from next to nothing to more than enough: a result or MemoryError, and nothing else."""
    rows, good = [], True
    for name in names:
        words = []
        for megabytes in np.geomspace(1, 2000, max(count, 2)).astype(int):
            report = _finish(_start(name, "--memory", str(megabytes)))
            fine = report["usable"] and not report["words"].startswith("no answer")
            good &= fine
            if not fine:
                words.append(f"{megabytes} MB: {report['words']}")
        rows.append([name, str(len(words)), "; ".join(words)[:150]])
    print(text_table(["too little memory", "crashes", "where"], rows), flush=True)
    return good
