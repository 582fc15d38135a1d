"""The problems that the libraries are compared on, and what is wanted of altdiff on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.peers.problems import (
    ALL_OWN,
    MATRICES,
    Problem,
    energy_problem,
    paper_problem,
    random_problem,
)

# mnist is the layer of the paper's section 5.3: the network makes q, all else are the layer's own parameters.
ONLY_Q_OWN = frozenset("PGhAb")


@dataclass(frozen=True)
class Workload:
    """A named problem, and the goal: a least ratio to the best peer, or a most in units of dpotrf."""

    name: str
    n: int
    batch: int
    what: str  # for the heading of its table
    make: Callable[[], Problem]
    ratio: float | None = None  # wanted: total of the best peer / total of altdiff
    rival: str | None = None  # compare with this peer (and its variants), whatever its errors
    units: float | None = None  # wanted: at most so many dpotrf
    alone: bool = False  # too large for the peers


def random_workload(
    name: str,
    size: tuple[int, int, int],
    batch: int | None = None,
    shared: frozenset[str] = ALL_OWN,
    *,
    seed: int,
    ratio: float | None = None,
    rival: str | None = None,
    units: float | None = None,
    alone: bool = False,
) -> Workload:
    """A workload of random dense problems, `size` = (n, m, p)."""
    n, m, p = size
    count = "one instance" if batch is None else f"batch {batch}"
    common = f", {' '.join(sorted(shared))} shared" if shared else ", all fields own" if batch else ""
    return Workload(
        name,
        n,
        batch or 1,
        f"n={n} m={m} p={p}, {count}{common}, seed {seed}",
        partial(random_problem, n, m, p, batch, shared, seed),
        ratio,
        rival,
        units,
        alone,
    )


def paper_workload(name: str, size: tuple[int, int, int], *, seed: int, ratio: float) -> Workload:
    """A workload of the paper's table 1, by its authors' generator."""
    n, m, p = size
    what = f"n={n} m={m} p={p}, one instance, P = R'R, seed {seed}"
    return Workload(name, n, 1, what, partial(paper_problem, n, m, p, seed), ratio)


def energy_workload(name: str, batch: int, *, seed: int, ratio: float) -> Workload:
    """A workload of energy scheduling."""
    what = f"n=24 m=46 p=0, batch {batch}, P = 2I, P G h shared, seed {seed}"
    return Workload(name, 24, batch, what, partial(energy_problem, batch, seed), ratio)


TINY, SMALL, MEDIUM, LARGE = (1500, 500, 200), (3000, 1000, 500), (5000, 2000, 1000), (10000, 5000, 2000)

WORKLOADS = {
    workload.name: workload
    for workload in (
        random_workload("single-20", (20, 20, 5), seed=1, ratio=5),
        random_workload("single-100", (100, 100, 20), seed=2, ratio=10),
        random_workload("own-10", (10, 10, 4), 1024, seed=3, ratio=20),
        random_workload("own-50", (50, 50, 10), 256, seed=4, ratio=20),
        random_workload("own-100", (100, 100, 20), 128, seed=5, ratio=18),
        random_workload("mnist", (200, 50, 50), 64, ONLY_Q_OWN, seed=6, ratio=150),
        random_workload("shared-100-ineq", (100, 300, 10), 256, MATRICES, seed=7, ratio=60, rival="proxqp"),
        energy_workload("energy", 64, seed=8, ratio=20),
        energy_workload("energy-4096", 4096, seed=9, ratio=18),
        random_workload("table1-tiny", TINY, seed=10, ratio=6),
        random_workload("table1-small", SMALL, seed=11, ratio=8),
        paper_workload("paper-tiny", TINY, seed=12, ratio=5),
        paper_workload("paper-small", SMALL, seed=13, ratio=4),
        random_workload("table1-medium", MEDIUM, seed=14, units=5, alone=True),
        random_workload("table1-large", LARGE, seed=15, alone=True),
    )
}
