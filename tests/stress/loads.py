"""Calls that take seconds, one for each path through the library: to be interrupted, limited and starved.

Run as a program it makes one of them, says "begun", and says what became of it.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp

Call = Callable[..., Any]


@dataclass(frozen=True)
class Load:
    """How to set a call up, and the largest matrix that it factorises at a time."""

    prepare: Callable[[], Call]
    largest: int
    limited: bool = True  # whether it takes time_limit


def dense_data(size: tuple[int, ...], n: int, m: int, p: int = 0, rank: int | None = None) -> dict[str, Any]:
    """Random dense programs, feasible around a point."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(*size, n, n if rank is None else rank))
    x = rng.normal(size=(*size, n, 1))
    G, A = rng.normal(size=(*size, m, n)), rng.normal(size=(*size, p, n))
    P = root @ root.swapaxes(-1, -2) / n + (0.01 * np.eye(n) if rank is None else 0.0)
    h = (G @ x)[..., 0] + rng.uniform(size=(*size, m))
    data = {"P": P, "q": 5 * rng.normal(size=(*size, n)), "G": G, "h": h, "lb": -10.0, "ub": 10.0}
    return data | ({"A": A, "b": (A @ x)[..., 0]} if p else {})


def sparse_data(n: int, size: tuple[int, ...] = ()) -> dict[str, Any]:
    """A random sparse program whose factor fills in."""
    rng = np.random.default_rng(0)
    M: Any = sp.random(n, n, density=4.0 / n, random_state=0, format="csc")
    G = (sp.random(n, n, density=3.0 / n, random_state=1) + sp.eye(n)).tocsc()
    P = (M @ M.T + 0.01 * sp.eye(n)).tocsc()
    return {"P": P, "q": 3 * rng.normal(size=(*size, n)), "G": G, "h": rng.uniform(size=n) + 0.1}


def solving(data: dict[str, Any], **fixed: Any) -> Call:
    """A solve."""
    return lambda **settings: altdiff.solve_qp(**data, **fixed, **settings)


def differentiating(data: dict[str, Any], what: str) -> Call:
    """A derivative of a solution that is there already."""
    s = altdiff.solve_qp(**data)
    if what == "jacobian":
        return lambda: s.jacobian("h")
    if what == "jvp":
        return lambda: s.jvp(q=np.ones_like(data["q"]), h=np.ones_like(data["h"]))
    return lambda: s.vjp(np.ones_like(s.x), z_bar=np.ones_like(s.z))


def algorithm_1(data: dict[str, Any]) -> Call:
    """The paper's rounds, with a tolerance that they do not reach."""
    fields = {name: value for name, value in data.items() if name not in ("lb", "ub")}
    return lambda **settings: altdiff.alternating_differentiation(
        **fields, wrt="q", tolerance=1e-15, max_iterations=3000, **settings
    )


def kinks(size: int) -> dict[str, Any]:
    """Programs whose solutions lie on rows that do not push: derivatives by convention."""
    rng = np.random.default_rng(0)
    x, G = rng.normal(size=(size, 20)), rng.normal(size=(size, 30, 20))
    h = (G @ x[..., None])[..., 0] + (np.arange(30) > 2)
    return {"P": np.eye(20), "q": -x, "G": G, "h": h}


def contradictory(n: int) -> dict[str, Any]:
    """A sparse program with two rows that contradict each other a little: a search for the proof."""
    data = sparse_data(n)
    row: Any = sp.csc_matrix(np.ones((1, n)))
    return {**data, "G": sp.vstack([data["G"], row, -row]).tocsc(), "h": np.r_[data["h"], 0.0, -1e-5]}


def convex(size: tuple[int, ...], n: int) -> Call:
    """A log-sum-exp with rows, which the general engine solves."""
    rng = np.random.default_rng(0)
    M, G = rng.normal(size=(*size, 2 * n, n)), rng.normal(size=(*size, n, n))
    objective = altdiff.LogSumExp(M) + altdiff.Quadratic(0.01 * np.eye(n), rng.normal(size=(*size, n)))
    given: dict[str, Any] = {"G": G, "h": rng.uniform(0.1, 1.0, size=(*size, n)), "lb": -10.0, "ub": 10.0}
    return lambda **settings: altdiff.solve_convex(objective, **given, **settings)


def budget() -> Call:
    """A long row of numbers."""
    y = np.random.default_rng(0).normal(size=(400, 100_000))
    return lambda: altdiff.softmax(y, upper=1e-4)


LOADS = {
    "dense batch": Load(lambda: solving(dense_data((1500,), 60, 180)), 180),
    "dense batch, shared": Load(lambda: solving(_sharing(dense_data((1500,), 100, 300))), 300),
    "dense batch, tiny": Load(lambda: solving(dense_data((100_000,), 8, 12)), 12),
    "dense, one": Load(lambda: solving(dense_data((), 1200, 2400)), 2400),
    "dense, singular P": Load(lambda: solving(dense_data((), 800, 1600, rank=200)), 2400),
    "dense, large": Load(lambda: solving(dense_data((), 4000, 2000)), 4000),
    "dense batch, kinks": Load(lambda: solving(kinks(3000)), 30),
    "dense batch, singular P": Load(lambda: solving(dense_data((400,), 40, 60, rank=10)), 100),
    "dense, interior point": Load(lambda: solving(dense_data((), 1000, 2000), method="interior_point"), 3000),
    "dense, alternating": Load(
        lambda: solving(dense_data((40,), 100, 200), method="alternating", finish=False, tolerance=1e-13), 300
    ),
    "sparse, one": Load(lambda: solving(sparse_data(2500)), 1500),
    "sparse, large": Load(lambda: solving(sparse_data(20_000)), 4000),
    "sparse, contradictory": Load(lambda: solving(contradictory(800)), 1600),
    "sparse batch": Load(lambda: solving(sparse_data(300, (200,))), 600),
    "sparse, alternating": Load(
        lambda: solving(sparse_data(600), method="alternating", tolerance=1e-12), 1200
    ),
    "convex batch": Load(lambda: convex((400,), 40), 80),
    "convex, one": Load(lambda: convex((), 250), 500),
    "jacobian, dense batch": Load(
        lambda: differentiating(dense_data((300,), 60, 180), "jacobian"), 180, False
    ),
    "jacobian, dense": Load(lambda: differentiating(dense_data((), 900, 1800), "jacobian"), 1800, False),
    "jacobian, sparse": Load(lambda: differentiating(sparse_data(1000), "jacobian"), 1000, False),
    "vjp, dense batch": Load(lambda: differentiating(dense_data((10_000,), 40, 80), "vjp"), 80, False),
    "vjp, sparse batch": Load(lambda: differentiating(sparse_data(300, (600,)), "vjp"), 600, False),
    "jvp, sparse batch": Load(lambda: differentiating(sparse_data(300, (600,)), "jvp"), 600, False),
    "algorithm 1": Load(lambda: algorithm_1(dense_data((), 200, 200, 20)), 200),
    "algorithm 1, sparse": Load(lambda: algorithm_1(sparse_data(300)), 600),
    "budget": Load(budget, 1, False),
}


def _sharing(data: dict[str, Any]) -> dict[str, Any]:
    shared = {name: data[name][0] for name in ("P", "G")}
    h = (shared["G"] @ np.ones(shared["P"].shape[0])) + np.abs(data["h"])
    return {**data, **shared, "h": h}


def starve(megabytes: int) -> None:
    """Leaves this process so much more memory than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def summary(result: Any) -> str:
    """The statuses of a solution."""
    if not hasattr(result, "status"):
        return "done"
    values, counts = np.unique(np.asarray(result.status), return_counts=True)
    return ", ".join(f"{count} {altdiff.Status(value)}" for value, count in zip(values, counts, strict=True))


def main() -> None:
    """Makes one call, or one after another until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.loads", description=__doc__)
    parser.add_argument("name", choices=list(LOADS))
    parser.add_argument("--limit", type=float, help="time_limit")
    parser.add_argument("--memory", type=int, help="megabytes beyond what it has when it begins")
    parser.add_argument("--endless", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    call = LOADS[given.name].prepare()
    settings = {} if given.limit is None else {"time_limit": given.limit}
    altdiff.solve_qp(**dense_data((8,), 5, 5))  # whatever is made once is made here
    print("begun", flush=True)
    if given.memory is not None:
        starve(given.memory)
    begin = time.perf_counter()
    try:
        words = summary(call(**settings))
        while given.endless:
            call(**settings)
    except (KeyboardInterrupt, MemoryError) as error:
        words = type(error).__name__
    seconds, at = time.perf_counter() - begin, time.time()
    usable = abs(float(altdiff.solve_qp([[2.0]], [-2.0]).x[0]) - 1.0) < 1e-9
    print(json.dumps({"words": words, "seconds": seconds, "usable": usable, "at": at}), flush=True)


if __name__ == "__main__":
    main()
