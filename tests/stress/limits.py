"""How well limits hold: every engine and path with a time limit, and with Ctrl-C.

    python tests/stress/limits.py              all paths, a few minutes
    python tests/stress/limits.py jacobian     those with this in their name
    python tests/stress/limits.py --large      also those of several thousand variables

For each path the time without a limit, with one, and how late the call was; then the delay between a SIGINT and
the KeyboardInterrupt, and whether the next solve is right. A delay may be 0.2 s and one call of BLAS, lateness
0.1 s or one factorisation, and no call may take longer with a limit than without. The clock of a time limit starts
when the arrays are in the core: what a call takes that has no time at all ("empty": copies) is not lateness.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

import altdiff
from altdiff import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Call = Callable[..., Any]

LATE = 0.1  # seconds that a call may be late
DELAY = 0.2  # seconds until a KeyboardInterrupt
SLOWER = 1.2  # times the duration without a limit: noise
FACTORISATION = 0.25  # of a path's time that one factorisation may be, where it is longer than LATE


@dataclass
class Path:
    """A way through the library: `prepare` makes its call, which takes `time_limit` if `limited`."""

    name: str
    prepare: Callable[[], Call]
    limited: bool = True
    large: bool = False


def dense(n: int, m: int, batch: int = 0, rank: int | None = None, shared: bool = False) -> dict[str, Any]:
    """A feasible random program, or a batch of them."""
    rng = np.random.default_rng(1)
    lead = (batch,) if batch and not shared else ()
    factor = rng.standard_normal((*lead, n, rank or n)) / np.sqrt(n)
    P = factor @ np.swapaxes(factor, -1, -2)
    if rank is None:
        P += 0.1 * np.eye(n)
    G = rng.standard_normal((*lead, m, n))
    vectors = (batch,) if batch else ()
    x = rng.standard_normal((*vectors, n, 1))
    h = (G @ x)[..., 0] + rng.uniform(0, 0.1, (*vectors, m))
    q = 3 * rng.standard_normal((*vectors, n))
    bounds: dict[str, Any] = {} if rank is None else {"lb": -np.full(n, 10.0), "ub": np.full(n, 10.0)}
    return {"P": P, "q": q, "G": G, "h": h, **bounds}


def sparse(n: int, density: float, batch: int = 0) -> dict[str, Any]:
    """A feasible random sparse program; a batch has vectors of its own."""
    rng = np.random.default_rng(2)
    M = sp.random(n, n, density=density, random_state=rng, format="csc")
    G = sp.random(n, n, density=density, random_state=rng, format="csc")
    shape = (batch, n) if batch else (n,)
    x = rng.standard_normal(shape)
    h = x @ G.T.toarray() if batch else G @ x
    return {
        "P": (M @ M.T + 1e-3 * sp.eye(n)).tocsc(),
        "q": rng.standard_normal(shape),
        "G": G,
        "h": h + rng.uniform(0, 0.1, shape),
    }


def solving(data: dict[str, Any], **settings: Any) -> Call:
    """Solves."""
    return lambda **limit: altdiff.solve_qp(**data, **settings, **limit)


def infeasible(n: int) -> dict[str, Any]:
    """A sparse program whose last two rows contradict each other a little."""
    data = sparse(n, 5 / n)
    row = sp.csc_matrix(np.ones((1, n)))
    G = sp.vstack([data["G"], row, -row]).tocsc()
    return {**data, "G": G, "h": np.r_[data["h"], 0.0, -1e-5]}


def kinks(batch: int) -> dict[str, Any]:
    """Every solution lies on a weakly active row."""
    rng = np.random.default_rng(3)
    n = 20
    x = rng.standard_normal((batch, n))
    G = rng.standard_normal((batch, 30, n))
    h = (G @ x[..., None])[..., 0]
    h[:, 3:] += 1
    return {"P": np.eye(n), "q": -x, "G": G, "h": h}


def pulling(data: dict[str, Any], **settings: Any) -> Call:
    """vjp of a solved program."""
    solution = altdiff.solve_qp(**data, **settings)
    bar = np.ones_like(solution.x)
    return lambda: [solution.vjp(bar) for _ in range(1)]


def pushing(data: dict[str, Any], **settings: Any) -> Call:
    """jvp of a solved program along all fields."""
    solution = altdiff.solve_qp(**data, **settings)
    return lambda: solution.jvp(**{name: value for name, value in data.items() if name not in ("lb", "ub")})


def jacobian(data: dict[str, Any], field: str, **settings: Any) -> Call:
    """A Jacobian of a solved program."""
    solution = altdiff.solve_qp(**data, **settings)
    return lambda: solution.jacobian(field)


def algorithm1(data: dict[str, Any], **settings: Any) -> Call:
    """The paper's algorithm, which would run for very long."""
    options = {"wrt": "h", "tolerance": 1e-14, "stopping": "residual", **settings}
    return lambda **limit: altdiff.alternating_differentiation(**data, **options, **limit)


def rows(kind: str, count: int, n: int) -> Call:
    """Rows with a budget and limits of their own."""
    rng = np.random.default_rng(4)
    y = rng.standard_normal((count, n))
    upper = rng.uniform(0.5, 2, (count, n)) * 3 / n
    function = getattr(altdiff, kind)
    return lambda: function(y, upper)


PATHS = [
    Path("dense one, n 1000, m 2000", lambda: solving(dense(1000, 2000))),
    Path("dense one, n 4000, m 4000", lambda: solving(dense(4000, 4000)), large=True),
    Path("dense own, 1500 x (60, 180)", lambda: solving(dense(60, 180, 1500))),
    Path("dense shared, 6000 x (100, 300)", lambda: solving(dense(100, 300, 6000, shared=True))),
    Path("quartets, 200000 x (6, 8)", lambda: solving(dense(6, 8, 200_000))),
    Path("kinks, 2000 x (20, 30)", lambda: solving(kinks(2000))),
    Path("proximal, n 300, m 600, rank 100", lambda: solving(dense(300, 600, rank=100))),
    Path("proximal batch, 400 x (40, 60)", lambda: solving(dense(40, 60, 400, rank=10))),
    Path("interior point dense, n 800", lambda: solving(dense(800, 1600), method="interior_point")),
    Path("interior point dense, n 3000", lambda: solving(dense(3000, 3000), method="interior_point"), large=True),
    Path("interior point sparse, n 3000", lambda: solving(sparse(3000, 2e-3))),
    Path("interior point sparse, n 20000", lambda: solving(sparse(20000, 8e-5)), large=True),
    Path("interior point batch, 300 x (40, 60)", lambda: solving(dense(40, 60, 300), method="interior_point")),
    Path("alternating dense, n 400", lambda: solving(dense(400, 800), method="alternating", tolerance=1e-12)),
    Path(
        "alternating without finish, n 400",
        lambda: solving(dense(400, 800), method="alternating", finish=False, max_iterations=20000),
    ),
    Path("alternating sparse, n 2000", lambda: solving(sparse(2000, 1e-3), method="alternating", tolerance=1e-12)),
    Path("proof search, sparse n 3000", lambda: solving(infeasible(3000))),
    Path("sparse batch, 40 x n 500", lambda: solving(sparse(500, 1e-2, 40))),
    Path("Algorithm 1 dense, n 300", lambda: algorithm1(dense(300, 300))),
    Path("Algorithm 1 sparse, n 500", lambda: algorithm1(sparse(500, 4e-3))),
    Path("vjp own, 1500 x (60, 180)", lambda: pulling(dense(60, 180, 1500)), limited=False),
    Path("jvp own, 1500 x (60, 180)", lambda: pushing(dense(60, 180, 1500)), limited=False),
    Path("vjp sparse batch, 40 x n 500", lambda: pulling(sparse(500, 1e-2, 40)), limited=False),
    Path("jacobian own, 1500 x (60, 180)", lambda: jacobian(dense(60, 180, 1500), "h"), limited=False),
    Path("jacobian one, n 1000, m 2000", lambda: jacobian(dense(1000, 2000), "h"), limited=False),
    Path("jacobian sparse, n 3000", lambda: jacobian(sparse(3000, 2e-3), "h"), limited=False),
    Path("sparsemax, 1000 x 20000", lambda: rows("sparsemax", 1000, 20000), limited=False),
    Path("softmax, 1000 x 20000", lambda: rows("softmax", 1000, 20000), limited=False),
]


def seconds(call: Call, **limit: float) -> tuple[float, Any]:
    """How long it takes, and what it returns."""
    begin = time.perf_counter()
    result = call(**limit)
    return time.perf_counter() - begin, result


def statuses(result: Any) -> str:
    """What became of the instances."""
    if hasattr(result, "converged"):
        return f"{result.iterations} rounds"
    counts = Counter(np.atleast_1d(result.status).tolist())
    return ", ".join(f"{count} {Status(status).name}" for status, count in sorted(counts.items()))


def interrupted(call: Call, after: float) -> float | None:
    """The delay of a KeyboardInterrupt that is asked for so many seconds after the call began; None: too late."""
    sent = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        call()
        timer.cancel()
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]
    return None


def usable() -> bool:
    """Whether the library still works, on several threads too."""
    one = altdiff.solve_qp(np.eye(2), np.array([-1.0, 2.0]), lb=np.zeros(2))
    many = altdiff.solve_qp(**dense(30, 40, 64))
    return bool(np.allclose(one.x, [1, 0])) and set(np.atleast_1d(many.status).tolist()) == {int(Status.SOLVED)}


@dataclass
class Row:
    """What was measured of a path."""

    name: str
    without: float
    limit: float | None
    empty: float
    limited: float | None
    ended: str
    delay: float | None
    usable: bool

    @property
    def late(self) -> float | None:
        return None if self.limit is None or self.limited is None else max(0.0, self.limited - self.limit - self.empty)

    @property
    def ok(self) -> bool:
        late = self.late is None or self.late <= max(LATE, FACTORISATION * self.without)
        slower = self.limited is None or self.limited <= SLOWER * self.without + LATE
        return late and slower and self.usable and (self.delay is None or self.delay <= DELAY)


def measured(path: Path) -> Row:
    """Runs a path without a limit, without time, with a limit, and with an interrupt."""
    call = path.prepare()
    endless = {"time_limit": 6.0} if path.name.startswith("Algorithm") else {}
    without, result = seconds(call, **endless)
    ended = "" if not path.limited else statuses(result)
    limit = limited = None
    empty = 0.0
    if path.limited:
        empty = seconds(call, time_limit=1e-9)[0]
        limit = min(1.0, 0.25 * without)
        limited, result = seconds(call, time_limit=limit)
        ended += " -> " + statuses(result)
    delay = interrupted(call, 0.4 * without)
    return Row(path.name, without, limit, empty, limited, ended, delay, usable())


def _number(value: float | None, format_: str = "8.3f") -> str:
    return " " * 7 + "-" if value is None else format(value, format_)


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of paths; none: all")
    parser.add_argument("--large", action="store_true", help="also programs with several thousand variables")
    options = parser.parse_args()
    chosen = [p for p in PATHS if (options.large or not p.large) and _named(p, options.names)]
    print(f"{'path':38} {'without':>8} {'limit':>8} {'empty':>8} {'with':>8} {'late':>8} {'Ctrl-C':>8}  ok   ended")
    failures = 0
    for path in chosen:
        row = measured(path)
        failures += not row.ok
        print(
            f"{row.name:38} {_number(row.without)} {_number(row.limit)} {_number(row.empty)} "
            f"{_number(row.limited)} {_number(row.late)} {_number(row.delay)}  {'ok ' if row.ok else 'NO '}  {row.ended}",
            flush=True,
        )
    return failures


def _named(path: Path, names: list[str]) -> bool:
    return not names or any(name in path.name for name in names)


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
