"""The parent's side of a worker: start it, ask it with a time limit, stop it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.peers.reference import solve_reference
from benchmarks.peers.worker import Session, serve
from benchmarks.peers.workloads import Workload

# Spawn: OpenMP that was used before a fork hangs in the child.
SPAWN = multiprocessing.get_context("spawn")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
LONGEST_REASON = 70
LARGE = 1000  # variables from which on threads help the reference
BUSY = 0.5  # load average before the first measurement, above which a warning is printed


class CellError(Exception):
    """Why a library has no numbers on a workload, in words for the table."""


def stop(number: int, _: FrameType | None) -> None:
    """Leaves in order, so that workers end and their folder, which may be large, is deleted."""
    sys.exit(128 + number)


def warn_if_busy() -> None:
    """Before the first measurement."""
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"Other processes are running (load average {load:.1f}): times will be too long and noisy.\n")


@contextmanager
def environment(threads: int) -> Iterator[None]:
    """The variables that libraries read once, at import, to choose their number of threads."""
    wanted = {name: str(threads) for name in THREAD_VARIABLES} | {"JAX_PLATFORMS": "cpu"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def start(target: Callable[..., None], arguments: tuple[Any, ...], threads: int) -> Any:
    """A process that ends with this one."""
    process = SPAWN.Process(target=target, args=arguments, daemon=True)
    with environment(threads):
        process.start()
    return process


def write_case(workload: Workload, folder: Path) -> None:
    """The problem and its reference, as files."""
    problem = workload.make()
    problem.save(folder)
    solve_reference(problem).save(folder)


@contextmanager
def case(workload: Workload, threads: int) -> Iterator[Path]:
    """A folder with the problem and its exact solution, made by a process of its own."""
    with tempfile.TemporaryDirectory(prefix="altdiff-peers-") as name:
        # Small factorisations are slower on several threads, and much slower where cores are busy.
        process = start(write_case, (workload, Path(name)), threads if workload.n >= LARGE else 1)
        try:
            process.join()
        finally:
            if process.is_alive():  # interrupted: it must not write into a folder that is being deleted
                process.kill()
                process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"{workload.name}: no reference (exit status {process.exitcode})")
        yield Path(name)


def shortened(text: str) -> str:
    """The first line, cut."""
    line = next(iter(text.strip().splitlines()), "no reason given")
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."


class Worker:
    """One library on one problem, in a process of its own."""

    def __init__(self, library: str, threads: int, folder: Path, session: type[Session] = Session) -> None:
        self.library = library
        self.connection, theirs = SPAWN.Pipe()
        log = folder / f"{library}.log"
        self.process = start(serve, (theirs, library, threads, folder, log, session), threads)
        theirs.close()

    def ask(self, timeout: float, name: str, *arguments: Any) -> Any:
        """The result of a command; a CellError if there is none in time, or ever."""
        try:
            self.connection.send((name, arguments))
            if not self.connection.poll(timeout):
                self.process.kill()
                raise CellError(
                    f"did not finish in {timeout:.0f} s" + (" (building)" if name == "load" else "")
                )
            how, result = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            raise CellError(f"failed: its process ended (exit status {self.process.exitcode})") from None
        if how == "missing":
            raise CellError(f"not available ({shortened(result)})")
        if how == "failed":
            raise CellError(f"failed: {shortened(result)}")
        return result

    def close(self) -> None:
        """Ends the process."""
        self.connection.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
