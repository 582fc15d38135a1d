"""Tasks over processes. A task that ends its process is a result too: the library must never do that."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from tqdm import tqdm

Task = TypeVar("Task")
Result = TypeVar("Result")
WINDOW = 64  # tasks at a time: what is done again if one of them dies


def run_all(
    work: Callable[[Task], Result],
    died: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int,
) -> Iterator[Result]:
    """The results in the order of the tasks; `died` makes that of a task whose process ended."""
    os.environ["OMP_NUM_THREADS"] = "1"  # a process has one core
    with tqdm(total=len(tasks), disable=None, leave=False, mininterval=2) as progress:
        pool = _pool(workers)
        for first in range(0, len(tasks), WINDOW):
            some = tasks[first : first + WINDOW]
            futures: list[Future[Result]] = []
            try:
                futures = [pool.submit(work, task) for task in some]
                results = [future.result() for future in futures]
            except BrokenProcessPool:
                pool = _pool(workers)
                results = [_guarded(work, died, task) for task in some]
            progress.update(len(some))
            yield from results
        pool.shutdown()


def _guarded(work: Callable[[Task], Result], died: Callable[[Task], Result], task: Task) -> Result:
    """One task in a process of its own."""
    with _pool(1) as pool:
        try:
            return pool.submit(work, task).result()
        except BrokenProcessPool:
            return died(task)


def survives(work: Callable[[], object]) -> bool:
    """Whether a call, in a copy of this process, comes to an end; exceptions are ends too."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
