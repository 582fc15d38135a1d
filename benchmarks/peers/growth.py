"""How altdiff's cost grows with the number of variables, of instances and of threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tqdm import tqdm

from benchmarks.peers.layers import ALTDIFF
from benchmarks.peers.measure import Options, Result, measure
from benchmarks.peers.problems import ALL_OWN, MATRICES
from benchmarks.peers.workloads import WORKLOADS, Workload, random_workload

SIZES = (10, 30, 100, 300, 1000, 3000)
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
BATCH_VARIABLES = 20
THREADS = (1, 2, 4)
THREAD_WORKLOADS = ("own-50", "table1-tiny")
SEED = 100


@dataclass(frozen=True)
class Point:
    """One measurement of a series."""

    value: int  # n, batch or threads
    result: Result


def sized(n: int, batch: int | None = None, shared: frozenset[str] = ALL_OWN) -> Workload:
    """n variables, n/2 inequalities, n/5 equalities."""
    name = f"n={n}" if batch is None else f"batch={batch}"
    return random_workload(name, (n, n // 2, n // 5), batch, shared, seed=SEED)


def plan(threads: int) -> dict[str, list[tuple[int, Workload, int]]]:
    """Of each series: the value, the workload and the number of threads."""
    by_size = [(n, sized(n), threads) for n in SIZES]
    own = [(batch, sized(BATCH_VARIABLES, batch), threads) for batch in BATCHES]
    shared = [(batch, sized(BATCH_VARIABLES, batch, MATRICES), threads) for batch in BATCHES]
    by_threads = {
        f"threads, {name}": [(count, WORKLOADS[name], count) for count in THREADS]
        for name in THREAD_WORKLOADS
    }
    return {
        "variables n, one instance (m = n/2, p = n/5)": by_size,
        f"batch, n = {BATCH_VARIABLES}, all fields own": own,
        f"batch, n = {BATCH_VARIABLES}, P A G shared": shared,
        **by_threads,
    }


def measure_growth(options: Options) -> dict[str, list[Point]]:
    """All series, altdiff alone."""
    series = plan(options.threads)
    growth: dict[str, list[Point]] = {}
    steps = 2 * sum(len(points) for points in series.values())
    progress: tqdm[Any]
    with tqdm(total=steps, disable=None, leave=False) as progress:
        for title, points in series.items():
            growth[title] = []
            for value, workload, threads in points:
                result = measure(workload, [ALTDIFF], replace(options, threads=threads), progress)
                growth[title].append(Point(value, result))
    return growth
