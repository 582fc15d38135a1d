"""Tasks over processes, with a bar where somebody looks."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from tqdm import tqdm

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_all(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """The results in the order of the tasks."""
    progress = tqdm(total=len(tasks), disable=None, leave=False, mininterval=2)
    with progress:
        for result in _results(work, tasks, workers):
            progress.update()
            yield result


def _results(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    if workers <= 1:
        yield from map(work, tasks)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # a process has one core
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        yield from pool.map(work, tasks, chunksize=4)
