"""Times of forward and backward beside other layers, each in a process of its own, on one thread.

They take turns, and what counts is the median of the ratios of the turns: a machine may be half as fast for a
minute, and then is for all of them.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from statistics import median
from typing import Any

from benchmarks.convex.cell import LAYERS
from benchmarks.convex.workloads import WORKLOADS, Workload

TURNS = 7
TURN = 0.7  # seconds, or one call
ALL_TURNS = 30.0  # seconds after which no other turn begins

Turn = dict[str, Any]


def run(limit: float, largest: int) -> list[Turn]:
    """Prints a row for each workload and layer: milliseconds, errors, and how many times slower than ours."""
    print(f"{'workload':24} {'layer':12} {'ms':>10} {'x':>9} {'gradient':>9} {'ratio':>8}  ratios from .. to")
    rows = []
    for workload in WORKLOADS:
        if workload.n > largest:
            continue
        for layer, cell in _race(workload, limit).items():
            rows.append({"workload": workload.name, "layer": layer, **cell})
            print(_line(workload, layer, cell), flush=True)
    return rows


def _race(workload: Workload, limit: float) -> dict[str, Turn]:
    racers = {layer: _Racer(layer, workload, limit) for layer in LAYERS}
    begin = time.perf_counter()
    for turn in range(TURNS):
        if turn > 0 and time.perf_counter() - begin > ALL_TURNS:
            break
        for racer in racers.values():
            racer.run()
    ours = [turn["seconds"] for turn in racers["altdiff"].turns]
    return {layer: racer.summary(ours) for layer, racer in racers.items()}


class _Racer:
    """A process that waits for its next turn."""

    def __init__(self, layer: str, workload: Workload, limit: float) -> None:
        self._limit = limit
        self.turns: list[Turn] = []
        self._problem: str | None = None
        self._messages = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `summary`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.convex.cell", layer, workload.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        self._wait()  # so that none is made ready while another takes its turn

    def run(self) -> None:
        """One turn; after a failure none."""
        if self._problem is not None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its messages say why
            print(TURN, file=self._process.stdin, flush=True)
        answer = self._wait()
        if answer:
            self.turns.append(json.loads(answer))

    def _wait(self) -> str:
        """The next line that it says; none: there is a problem."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], self._limit)
        answer = self._process.stdout.readline() if ready else ""
        if not answer:
            self._problem = self._last_message() if ready else f"more than {self._limit:g} s"
            self._process.kill()  # the others want the processor
        return answer

    def summary(self, ours: list[float]) -> Turn:
        """Medians over the turns; ends the process."""
        self._process.kill()
        self._process.communicate()
        self._messages.close()
        if self._problem is not None:
            return {"problem": self._problem}
        ratios = [turn["seconds"] / own for turn, own in zip(self.turns, ours, strict=False)]
        return {**self.turns[0], "seconds": median(turn["seconds"] for turn in self.turns), "ratios": ratios}

    def _last_message(self) -> str:
        self._process.wait()
        self._messages.seek(0)
        return (self._messages.read().strip().splitlines() or ["no message"])[-1][:80]


def _line(workload: Workload, layer: str, cell: Turn) -> str:
    if "problem" in cell:
        return f"{workload.name:24} {layer:12} {cell['problem']}"
    ratios = cell["ratios"]
    spread = f"{median(ratios):8.1f}  {min(ratios):.1f} .. {max(ratios):.1f}" if ratios else ""
    numbers = f"{1e3 * cell['seconds']:10.3f} {cell['x']:9.1e} {cell['gradient']:9.1e}"
    return f"{workload.name:24} {layer:12} {numbers} {spread}"
