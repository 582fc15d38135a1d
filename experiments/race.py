"""One method on one problem, in a process of its own with a time limit: the cell of a table."""

from __future__ import annotations

import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.chain.own_process import alone
from benchmarks.peers.layers import LIBRARIES
from benchmarks.peers.layers.base import Layer
from benchmarks.peers.measure import BURST, LARGEST_BURST, SLOW
from benchmarks.peers.pool import CellError, Worker
from benchmarks.peers.problems import Array
from benchmarks.peers.worker import Session
from experiments.command import Budget
from experiments.growth import Guess, is_missing, no_guess, predicted
from experiments.results import Record, Results, spread

ALTDIFF = "altdiff"
ALGORITHM = "algorithm1"  # the paper's, with its rho, start and stopping rule
RESIDUAL = "algorithm1-residual"  # the same, stopped by residuals
TOLERANCE_OF = {ALGORITHM: 1e-3, RESIDUAL: 1e-6}  # where a label names none
OURS = (ALTDIFF, "altdiff-qp")  # never left out, and with a limit that only a mistake reaches
PATIENCE = 10.0  # their limit, in units of the others'
MOST_CALLS = 100


def split_label(label: str) -> tuple[str, float | None]:
    """A method, and the tolerance behind an @ if there is one."""
    name, _, tolerance = label.partition("@")
    return name, float(tolerance) if tolerance else TOLERANCE_OF.get(name)


class Contest(Session):
    """A process that runs one method; a subclass knows the problem, its layers and what is exact."""

    def __init__(self, library: str, threads: int, folder: Path) -> None:
        super().__init__(library, threads, folder)
        self.method, self.tolerance = split_label(library)
        self.building = 0.0

    @abstractmethod
    def layer_of(self, folder: Path | None) -> Layer:
        """The method's layer of the problem in the folder, or of a tiny one."""

    def tiny(self) -> Layer:
        """Loads what loads lazily."""
        return self.layer_of(None)

    def real(self) -> Layer:
        """Of the problem in the folder."""
        start = time.perf_counter()
        layer = self.layer_of(self.folder)
        self.building = time.perf_counter() - start
        return layer

    def versions(self) -> str:
        """Of the packages behind a method."""
        names = LIBRARIES[self.method].distributions if self.method in LIBRARIES else (ALTDIFF,)
        return " ".join(f"{name} {version(name)}" for name in names)

    def facts(self) -> Record:
        """What else is to be known of the last call: rounds, cosines."""
        found: Record = getattr(self.ready(), "facts", dict)()
        return {"building": self.building, **found}


def cosine(found: Array, exact: Array) -> float:
    """Of the angle between two arrays; 1 where both are zero."""
    size = float(np.linalg.norm(found) * np.linalg.norm(exact))
    return (
        float((found.ravel() @ exact.ravel()) / size) if size else float(not found.any() and not exact.any())
    )


def relative(found: Array, exact: Array) -> float:
    """The largest error in units of the largest entry."""
    return float(np.abs(found.ravel() - exact.ravel()).max() / np.abs(exact).max())


def timed_calls(worker: Worker, first: tuple[float, float], budget: Budget) -> list[tuple[float, float]]:
    """Warm calls until the seconds are used up; the first, cold one alone if it was slow."""
    if sum(first) > max(budget.seconds, SLOW):
        return [first]
    times: list[tuple[float, float]] = worker.ask(budget.limit, "burst", 1)
    while sum(map(sum, times)) < budget.seconds and len(times) < MOST_CALLS:
        burst = max(1, min(LARGEST_BURST, int(BURST / max(sum(times[-1]), 1e-6))))
        times += worker.ask(budget.limit, "burst", burst)
    return times


def measure(contest: type[Contest], label: str, folder: Path, budget: Budget) -> Record:
    """A cell; on one thread, and it says so, for a library that is known to fail on several."""
    method = split_label(label)[0]
    if method in OURS:
        budget = replace(budget, limit=PATIENCE * budget.limit)
    cell = measure_once(contest, label, folder, budget)
    failed = str(cell.get("problem", "")).startswith("failed")
    if failed and budget.threads > 1 and method in LIBRARIES and LIBRARIES[method].retry:
        again = measure_once(contest, label, folder, replace(budget, threads=1))
        cell = cell if "problem" in again else again | {"threads": 1}
    return cell


def measure_once(contest: type[Contest], label: str, folder: Path, budget: Budget) -> Record:
    """Times, errors, memory; or the reason why there are none."""
    worker = Worker(label, budget.threads, folder, contest)
    try:
        versions = worker.ask(budget.limit, "load")
        first, memory, errors = worker.ask(budget.limit, "first")
        facts = worker.ask(budget.limit, "facts")
        times = timed_calls(worker, first, budget)
    except CellError as problem:
        return {"problem": str(problem)}
    finally:
        worker.close()
    return {
        "versions": versions,
        "forward": spread(forward for forward, _ in times),
        "backward": spread(backward for _, backward in times),
        "total": spread(map(sum, times)),
        "first": sum(first),
        "cold": len(times) == 1 and times[0] == first,
        "memory": memory,
        "errors": errors,
        **facts,
    }


@contextmanager
def case(threads: int, write: Callable[[Path], None]) -> Iterator[Path]:
    """A folder with a problem and its exact solution, written by a process of its own."""
    with tempfile.TemporaryDirectory(prefix="altdiff-experiment-") as name:
        alone(threads, write, Path(name))
        yield Path(name)


def race(
    results: Results,
    row: str,
    labels: list[str],
    contest: type[Contest],
    write: Callable[[Path], None],
    budget: Budget,
    guess: Guess = no_guess,
    source: str = "size",
) -> None:
    """All methods on one problem; cells that are there already are not measured again.

    A method that is guessed to exceed the limit, from the size or the tolerance before, is not started.
    """

    def hopeless(label: str) -> bool:
        seconds = None if split_label(label)[0] in OURS else guess(label)
        if seconds is None or seconds <= budget.limit:
            return False
        results.put(f"{row}/{label}", predicted(seconds, source))
        return True

    missing = [label for label in labels if is_missing(results.cells.get(f"{row}/{label}"), budget.limit)]
    if all(hopeless(label) for label in missing):
        return
    progress: tqdm[Any]
    with (
        tqdm(total=len(missing) + 1, desc=row, disable=None, leave=False) as progress,
        case(budget.threads, write) as folder,
    ):
        progress.update()
        for label in missing:
            progress.set_postfix_str(label)
            if not hopeless(label):
                results.put(f"{row}/{label}", measure(contest, label, folder, budget))
            progress.update()
