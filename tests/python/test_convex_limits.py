"""Smooth programs under limits: time, interrupts, and what verbose says on the way."""

from __future__ import annotations

import _thread
import threading
import time
from typing import Any

import altdiff
import numpy as np
import pytest
import torch
from altdiff import Linear, LogSumExp, Separable, Status, solve_convex
from altdiff.torch import ConvexLayer

LATE = 0.6  # seconds; less on a machine that has nothing else to do


def separable(size: int) -> Any:
    """For the dual method."""
    rng = np.random.default_rng(0)
    n, m = 40, 15
    G = rng.normal(size=(size, m, n))
    h = (G @ np.full(n, 1 / n)) + 0.01
    objective = Linear(10 * rng.normal(size=(size, n))) + Separable("entropy", np.ones(n))
    return lambda **settings: solve_convex(objective, A=np.ones((1, n)), b=[1.0], G=G, h=h, **settings)


def mapped(size: int) -> Any:
    """For Newton's method, and for t as unknowns of their own."""
    rng = np.random.default_rng(0)
    n, k = 15, 25
    M, x = rng.normal(size=(size, k, n)), rng.normal(size=(size, n, 1))
    objective = Separable("entropy", np.full(k, 1e-3), M, (M @ x)[..., 0] - 1.0)
    objective_ = objective + Linear(rng.normal(size=(size, n)))
    return lambda **settings: solve_convex(objective_, lb=-10.0, ub=10.0, **settings)


def soft(size: int) -> Any:
    """For Newton's method alone."""
    rng = np.random.default_rng(0)
    n = 25
    M, G = rng.normal(size=(size, 2 * n, n)), rng.normal(size=(size, n, n))
    objective = LogSumExp(M) + Separable("square", np.full(n, 0.1))
    return lambda **settings: solve_convex(objective, G=G, h=np.full((size, n), 0.1), lb=-1.0, **settings)


def endless(size: int) -> Any:
    """A search for rays."""
    objective = Separable("softplus", M=-np.abs(np.random.default_rng(0).normal(size=(size, 30, 15))))
    return lambda **settings: solve_convex(objective, **settings)


def outside(size: int) -> Any:
    """A search for points of a domain that is empty."""
    objective = Separable("-log", np.ones(30), np.abs(np.random.default_rng(0).normal(size=(size, 30, 15))))
    return lambda **settings: solve_convex(objective, ub=-1.0, **settings)


def own(size: int) -> Any:
    """A function of the user's."""
    theta = torch.from_numpy(np.random.default_rng(0).normal(size=(size, 8)))

    def solve(**settings: Any) -> Any:
        layer = ConvexLayer(
            lambda x, t: ((x - t) ** 4).sum() + torch.logsumexp(x, 0),
            ranks=(1,),
            n=8,
            on_failure="nan",
            **settings,
        )
        return layer.solve(theta, lb=-1.0)

    return solve


CALLS = {"separable": separable, "mapped": mapped, "soft": soft, "endless": endless, "outside": outside}


@pytest.mark.parametrize("name", [*CALLS, "own"])
def test_a_time_limit_is_for_the_whole_call_and_keeps_what_is_solved(name: str) -> None:
    size = {"mapped": 8, "own": 3000}.get(name, 300)
    call = {**CALLS, "own": own}[name](size)
    begin = time.perf_counter()
    everything = np.asarray(call().status)
    full = time.perf_counter() - begin
    begin = time.perf_counter()
    limited = np.asarray(call(time_limit=full / 3).status)
    assert time.perf_counter() - begin <= full / 3 + LATE
    late = limited == Status.TIME_LIMIT
    np.testing.assert_array_equal(limited[~late], everything[~late])
    nothing = np.asarray(call(time_limit=1e-9).status)
    assert set(nothing.tolist()) <= {int(Status.TIME_LIMIT), *everything.tolist()}


@pytest.mark.parametrize("name", [*CALLS, "own", "vjp", "jvp", "jacobian"])
def test_an_interrupt_is_answered_and_python_usable_after(name: str) -> None:
    if name in ("vjp", "jvp", "jacobian"):
        solution = soft(100)()
        bars = np.ones_like(solution.x)
        derivatives: dict[str, Any] = {
            "vjp": lambda: solution.vjp(bars),
            "jvp": lambda: solution.jvp([{"M": np.ones(25)}, {}]),
            "jacobian": lambda: solution.jacobian("h"),
        }
        once = derivatives[name]
    else:
        once = {**CALLS, "own": own}[name](8 if name == "mapped" else 300)

    def forever() -> None:
        while True:
            once()

    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        _thread.interrupt_main()

    timer = threading.Timer(0.3, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        forever()
    assert time.perf_counter() - sent[0] <= 0.2 + LATE
    assert altdiff.solve_qp([[2.0]], [-2.0]).x[0] == pytest.approx(1.0)


@pytest.mark.parametrize("name", [*CALLS, "own"])
def test_verbose_tells_of_every_way(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = {**CALLS, "own": own}[name](3)
    call()
    assert capsys.readouterr().out == ""
    call(verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert "3 convex programs" in lines[0]
    assert sum(line.endswith((" SOLVED", "INFEASIBLE")) for line in lines) == 3
    if name in ("mapped", "soft", "endless", "own"):  # a line for each step
        assert len([line for line in lines if "e" in line and line.split()[0].isdigit()]) >= 6
