"""Many threads at once, and processes that fork: the answers of one alone, bit for bit."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import altdiff
import numpy as np

from tests.stress.loads import dense_data, sparse_data
from tests.stress.programs import Array

THREADS, ROUNDS = 8, 6
PATIENCE = 60  # seconds until a child that hangs is given up


def work(k: int) -> list[Array]:
    """One of several sorts of call; k chooses which."""
    sort = k % 4
    if sort == 0:
        s = altdiff.solve_qp(**dense_data((50,), 6, 8, 2), num_threads=2)
    elif sort == 1:
        s = altdiff.solve_qp(**dense_data((), 40, 60), num_threads=1)
    elif sort == 2:
        s = altdiff.solve_qp(**sparse_data(60, (4,)), num_threads=2)
    else:
        y = np.random.default_rng(k).normal(size=(50, 30))
        return [np.asarray(altdiff.softmax(y, upper=0.2))]
    return [s.x, s.z, np.asarray(s.vjp(np.ones_like(s.x)).h)]


def same(a: list[Array], b: list[Array]) -> bool:
    """Bit for bit."""
    return all(np.array_equal(one, other, equal_nan=True) for one, other in zip(a, b, strict=True))


def thread_faults() -> list[str]:
    """Calls whose answer differs when many threads call at once."""
    tasks = list(range(4 * ROUNDS))
    alone = [work(k) for k in tasks]
    faults = []
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(3):
            found = list(pool.map(work, tasks))
            faults += [f"call {k % 4} differs" for k in tasks if not same(alone[k], found[k])]
    return sorted(set(faults))


def fork_faults() -> list[str]:
    """What goes wrong in children of a process that has used threads, and in the parent after."""
    alone = [work(k) for k in range(4)]
    faults = []
    for generation in range(3):
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            try:
                fine = all(same(alone[k], work(k)) for k in range(4))
                inner = os.fork() if generation == 2 else None  # a child of a child, too
                if inner == 0:
                    os._exit(0 if all(same(alone[k], work(k)) for k in range(4)) else 1)
                fine &= inner is None or os.waitpid(inner, 0)[1] == 0
                os._exit(0 if fine else 1)
            finally:
                os._exit(2)
        status = os.waitpid(child, 0)[1]
        if status != 0:
            faults.append(
                f"child {generation}: {'killed by ' + str(status & 127) if status & 127 else 'differs'}"
            )
        if not all(same(alone[k], work(k)) for k in range(4)):
            faults.append(f"parent differs after fork {generation}")
    return faults
