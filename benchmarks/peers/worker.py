"""Runs in a process of its own: one library on one problem, at the command of `pool.Worker`.

A process a library keeps a crash or a hang in one from the others, and lets its memory be measured.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import time
import traceback
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers.layers import LIBRARIES, UNIT

if TYPE_CHECKING:
    from benchmarks.peers.layers.base import Layer

STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")
SHARE_OF_MEMORY = 0.75  # that a library may take before its allocations fail


def take_care(threads: int, log: Path) -> None:
    """As many cores as threads, some memory left for others, and whatever libraries print into a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (int(SHARE_OF_MEMORY * memory), hard))


def memory_now(kind: str) -> int:
    """Bytes: VmRSS is what is resident, VmHWM the most that ever was. Without /proc, both are the latter."""
    if not STATUS.exists():
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(kind))
    return 1024 * int(line.split()[1])


def forget_peak() -> None:
    """The peak starts again from what is resident now."""
    if os.access(PEAK_RESET, os.W_OK):
        PEAK_RESET.write_text("5")


def timed(layer: Layer) -> tuple[float, float]:
    """Seconds of forward and of backward."""
    start = time.perf_counter()
    layer.forward()
    middle = time.perf_counter()
    layer.backward()
    return middle - start, time.perf_counter() - middle


class Session:
    """The state between commands. A subclass may build layers of other problems than the dense ones."""

    def __init__(self, library: str, threads: int, folder: Path) -> None:
        self.library, self.threads, self.folder = library, threads, folder
        self.layer: Layer | None = None

    def load(self) -> str:
        """Imports the library and builds its layer; returns its version.

        A tiny problem goes through first, so that whatever loads lazily is not charged to the real one.
        """
        tiny = self.tiny()
        tiny.forward()
        tiny.backward()
        self.layer = self.real()
        return self.versions()

    def versions(self) -> str:
        """Of the library's packages."""
        return " ".join(f"{name} {version(name)}" for name in LIBRARIES[self.library].distributions)

    def tiny(self) -> Layer:
        """The layer of the tiny problem."""
        from benchmarks.peers.problems import ALL_OWN, random_problem

        layer: Layer = self.kind()(random_problem(4, 3, 1, 2, ALL_OWN, seed=0), self.threads)
        return layer

    def real(self) -> Layer:
        """The layer of the problem in the folder."""
        from benchmarks.peers.problems import Problem

        layer: Layer = self.kind()(Problem.load(self.folder), self.threads)
        return layer

    def kind(self) -> Any:
        """The library's adapter."""
        entry = LIBRARIES[self.library]
        return getattr(importlib.import_module(f"benchmarks.peers.layers.{entry.module}"), entry.layer)

    def first(self) -> tuple[tuple[float, float], int, dict[str, float]]:
        """The warm-up call: its seconds, the increase of peak memory, and the errors."""
        layer = self.ready()
        gc.collect()
        forget_peak()
        before = memory_now("VmRSS")
        seconds = timed(layer)
        increase = memory_now("VmHWM") - before
        return seconds, increase, {} if self.library == UNIT else self.errors(layer)

    def errors(self, layer: Layer) -> dict[str, float]:
        """Against the reference that lies beside the problem."""
        from benchmarks.peers.errors import relative_errors
        from benchmarks.peers.problems import Problem
        from benchmarks.peers.reference import Reference

        exact = Reference.load(self.folder)
        problem, x = Problem.load(self.folder), layer.solution()
        return relative_errors(problem, exact, x, layer.gradients(), layer.structure())

    def burst(self, count: int) -> list[tuple[float, float]]:
        """Seconds of forward and of backward, for so many calls."""
        layer = self.ready()
        gc.collect()
        times = []
        for _ in range(count):
            layer.reset()
            times.append(timed(layer))
        return times

    def ready(self) -> Layer:
        """The layer that `load` made."""
        if self.layer is None:
            raise RuntimeError("not loaded")
        return self.layer


def serve(
    connection: Connection[Any, Any],
    library: str,
    threads: int,
    folder: Path,
    log: Path,
    kind: type[Session] = Session,
) -> None:
    """Answers commands (name, arguments) with (how it went, result), until the connection is closed."""
    take_care(threads, log)
    session = kind(library, threads, folder)
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = ("ok", getattr(session, name)(*arguments))
        except ImportError as problem:
            answer = ("missing", str(problem))
        except Exception as problem:
            traceback.print_exc()
            answer = ("failed", f"{type(problem).__name__}: {problem}")
        connection.send(answer)
