"""Time limits are those of the whole call, Ctrl-C is answered, and what the system refuses is no crash.

`python -m tests.stress faults` has the figures. Here durations are compared with each other: machines may be
busy.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status

Call = Callable[..., Any]


def dense(n: int, m: int, *size: int, rank: int | None = None) -> dict[str, Any]:
    """Random programs that are feasible around a point."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(*size, n, n if rank is None else rank))
    G, x = rng.normal(size=(*size, m, n)), rng.normal(size=(*size, n, 1))
    return {
        "P": root @ root.swapaxes(-1, -2) / n + (0.01 * np.eye(n) if rank is None else 0),
        "q": 5 * rng.normal(size=(*size, n)),
        "G": G,
        "h": (G @ x)[..., 0] + rng.uniform(size=(*size, m)),
        "lb": np.full(n, -10.0),
    }


def sparse(n: int, *size: int) -> dict[str, Any]:
    """A random sparse program whose factor fills in, with vectors of each instance's own."""
    rng = np.random.default_rng(0)
    M: Any = sp.random(n, n, density=4 / n, random_state=0, format="csc")
    G = (sp.random(n, n, density=3 / n, random_state=1) + sp.eye(n)).tocsc()
    P = (M @ M.T + 0.01 * sp.eye(n)).tocsc()
    return {"P": P, "q": 3 * rng.normal(size=(*size, n)), "G": G, "h": rng.uniform(size=n) + 0.1}


def solving(data: dict[str, Any], **fixed: Any) -> Call:
    # Threads of BLAS wait for each other, and on a busy machine for long.
    return lambda **settings: altdiff.solve_qp(**data, num_threads=1, **fixed, **settings)


def paper(data: dict[str, Any]) -> Call:
    fields = {name: data[name] for name in ("P", "q", "G", "h")}
    return lambda **settings: altdiff.alternating_differentiation(
        **fields, wrt="q", tolerance=1e-15, max_iterations=400, **settings
    )


SOLVES: dict[str, Callable[[], Call]] = {
    "own matrices": lambda: solving(dense(40, 120, 600)),
    "four lanes": lambda: solving(dense(8, 12, 20_000)),
    "one": lambda: solving(dense(500, 1000)),
    "singular": lambda: solving(dense(300, 600, rank=60)),
    "interior point": lambda: solving(dense(300, 600), method="interior_point"),
    "alternating": lambda: solving(dense(60, 120, 20), method="alternating", tolerance=1e-12),
    "sparse": lambda: solving(sparse(900)),
    "sparse batch": lambda: solving(sparse(150, 60)),
    "algorithm 1": lambda: paper(dense(150, 150)),
}


def duration(call: Call, **settings: Any) -> tuple[float, Any]:
    """The shortest of three tries, and the last result."""
    tries = []
    for _ in range(3):
        begin = time.perf_counter()
        result = call(**settings)
        tries.append(time.perf_counter() - begin)
    return min(tries), result


@pytest.mark.parametrize("name", SOLVES)
def test_a_limit_ends_the_whole_call(name: str) -> None:
    call = SOLVES[name]()
    without, _ = duration(call)
    tenth, late = duration(call, time_limit=without / 10)
    assert tenth < 0.6 * without
    if name == "algorithm 1":
        assert not late.converged
        assert np.isfinite(late.x).all()
    else:
        assert Status.TIME_LIMIT in np.atleast_1d(late.status)


@pytest.mark.parametrize("name", [name for name in SOLVES if name != "algorithm 1"])
def test_what_is_solved_before_a_limit_is_kept(name: str) -> None:
    call = SOLVES[name]()
    without, free = duration(call)
    for share in (0.5, 100.0):
        held = call(time_limit=share * without)
        solved = np.atleast_1d(held.status) == Status.SOLVED
        late = np.atleast_1d(held.status) == Status.TIME_LIMIT
        assert (solved | late).all()
        # A limit may end the polishing of what is solved to tolerance already.
        objective = np.atleast_1d(held.objective)[solved]
        np.testing.assert_allclose(objective, np.atleast_1d(free.objective)[solved], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(held.x, free.x, rtol=1e-9, atol=1e-9)
    assert solved.all()


def test_an_instance_without_time_has_no_answer_and_no_derivative() -> None:
    for data in (dense(6, 8, 9), dense(40, 60, 5), sparse(30, 3)):
        solution = altdiff.solve_qp(**data, time_limit=1e-9)
        assert (solution.status == Status.TIME_LIMIT).all()
        assert np.isnan(solution.x).all()
        gradient = solution.vjp(np.ones_like(solution.x))
        assert np.isnan(gradient.q).all()


def test_an_invalid_instance_is_invalid_however_little_time_there_is() -> None:
    data = dense(6, 8, 9)
    data["q"][4, 0] = np.nan
    solution = altdiff.solve_qp(**data, time_limit=1e-9)
    assert solution.status[4] == Status.INVALID_DATA
    assert (np.delete(solution.status, 4) == Status.TIME_LIMIT).all()


def test_the_paper_s_algorithm_checks_its_limit() -> None:
    with pytest.raises(ValueError, match="time_limit"):
        paper(dense(3, 3))(time_limit=0.0)


def endless(call: Call) -> Call:
    def calls() -> None:
        while True:
            call()

    return calls


def derivative(data: dict[str, Any], what: str) -> Call:
    solution = altdiff.solve_qp(**data)
    if what == "jacobian":
        return lambda: solution.jacobian("h")
    if what == "jvp":
        return lambda: solution.jvp(q=np.ones_like(data["q"]))
    return lambda: solution.vjp(np.ones_like(solution.x))


LONG: dict[str, Callable[[], Call]] = {
    "one": lambda: solving(dense(700, 1400)),
    "own matrices": lambda: solving(dense(40, 120, 800)),
    "sparse": lambda: solving(sparse(1500)),
    "jacobian": lambda: derivative(dense(450, 900), "jacobian"),
    "jacobian of a batch": lambda: derivative(dense(60, 180, 150), "jacobian"),
    "jacobian, sparse": lambda: derivative(sparse(600), "jacobian"),
    "algorithm 1": lambda: paper(dense(150, 150)),
}
SHORT: dict[str, Callable[[], Call]] = {
    "vjp": lambda: derivative(dense(40, 80, 500), "vjp"),
    "jvp": lambda: derivative(sparse(100, 30), "jvp"),
    "budget": lambda: lambda: altdiff.softmax(np.ones((200, 20_000)), upper=1e-3),
}


def delay(call: Call, after: float) -> float:
    """Seconds between a SIGINT and the KeyboardInterrupt that it causes."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        endless(call)()
    seconds = time.perf_counter() - sent[0]
    timer.join()
    return seconds


def is_usable() -> bool:
    """Whether the next solves are right, those on several threads included."""
    batch = altdiff.solve_qp(**dense(30, 40, 64))
    return (
        bool((batch.status == Status.SOLVED).all()) and altdiff.solve_qp(**sparse(40)).status == Status.SOLVED
    )


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_is_answered_long_before_the_end(name: str) -> None:
    call = LONG[name]()
    without, _ = duration(call)
    assert min(delay(call, 0.3 * without) for _ in range(3)) < 0.35 * without
    assert is_usable()


@pytest.mark.parametrize("name", SHORT)
def test_ctrl_c_ends_a_loop_of_short_calls(name: str) -> None:
    delay(SHORT[name](), 0.1)
    assert is_usable()


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


WITHOUT_THREADS = """
import ctypes, numpy as np, altdiff
n, size = 30, 64
rng = np.random.default_rng(0)
M = rng.normal(size=(size, n, n))
data = dict(P=M @ M.swapaxes(1, 2) + np.eye(n), q=rng.normal(size=(size, n)), lb=np.zeros(n))
libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(256)
assert libc.pthread_attr_init(attributes) == 0
assert libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(1 << 46)) == 0  # more than there can be
assert libc.pthread_setattr_default_np(attributes) == 0
print(altdiff.solve_qp(**data).status.max(), altdiff.solve_qp(**data).vjp(np.ones((size, n))).q.shape)
"""


def test_a_thread_that_cannot_start_means_fewer_threads() -> None:
    ended = in_a_process(WITHOUT_THREADS)
    assert ended.stdout.split() == ["0", "(64,", "30)"], ended.stderr


STARVED = """
import resource, sys, numpy as np, altdiff
rng = np.random.default_rng(0)
size, n, m = {size}, {n}, {m}
M, G = rng.normal(size=(size, n, n)), rng.normal(size=(size, m, n))
data = dict(P=M @ M.swapaxes(1, 2) + np.eye(n), q=rng.normal(size=(size, n)), G=G, h=np.ones((size, m)))
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + ({megabytes} << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    solution = altdiff.solve_qp(**data, method="{method}")
    solution.vjp(np.ones((size, n)))
    print("solved")
except MemoryError:
    print("MemoryError")
"""


@pytest.mark.parametrize(
    ("size", "n", "m", "method"),
    [(1, 500, 400, "auto"), (1, 450, 300, "interior_point"), (60, 60, 80, "auto")],
)
def test_too_little_memory_is_an_error_and_not_the_end_of_the_process(
    size: int, n: int, m: int, method: str
) -> None:
    words = []
    for megabytes in (1, 20, 30, 40, 60, 80, 110, 1000):
        ended = in_a_process(STARVED.format(size=size, n=n, m=m, method=method, megabytes=megabytes))
        assert ended.returncode == 0, f"{megabytes} MB: {ended.stderr[-300:]}"
        words.append(ended.stdout.strip())
    assert words[0] == "MemoryError"
    assert words[-1] == "solved"
