"""Processes that take turns at the processor.

A machine may be half as fast for a minute, and then is for all of them: what counts is the median of the
ratios of the turns. A process says that it is ready, reads a number of seconds from every line of its input,
and answers with a line of JSON, of which "seconds" is the median time of a call.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

Turn = dict[str, Any]


def timed(call: Callable[[], object], seconds: float) -> Turn:
    """A turn: the median time of as many calls as fit, at least one."""
    times: list[float] = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return {"seconds": median(times), "calls": len(times)}


def serve(turn: Callable[[float], Turn]) -> None:
    """The side of the process that is timed."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(float(line))), flush=True)


class Racer:
    """A process that waits for its next turn."""

    def __init__(
        self, command: Sequence[str], limit: float, environment: Mapping[str, str] | None = None
    ) -> None:
        self._limit = limit
        self.turns: list[Turn] = []
        self._problem: str | None = None
        self._messages = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `summary`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._wait()  # so that none is made ready while another takes its turn

    def run(self, seconds: float) -> None:
        """One turn of so many seconds, or one call; after a failure none."""
        if self._problem is not None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its messages say why
            print(seconds, file=self._process.stdin, flush=True)
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
