"""How altdiff's time and memory grow with the length of the chain."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import altdiff
import numpy as np

from benchmarks.chain.problems import TINY, Array, Chain, worst_residual
from benchmarks.hostile.problems import Point
from benchmarks.peers.worker import forget_peak, memory_now

QUANTITIES = ("forward", "backward", "memory")


@dataclass(frozen=True)
class Growth:
    """One size."""

    n: int
    status: str
    forward: float  # median seconds
    backward: float
    memory: int  # bytes by which the first call raised the peak, factors and gradients of all fields included
    residual: float
    active: float  # share of the variables that stand at a bound
    calls: int


def once(fields: dict[str, Any], x_bar: Array) -> tuple[altdiff.Solution, float, float]:
    """The solution, and seconds of forward and of backward."""
    start = time.perf_counter()
    solution = altdiff.solve_qp(**fields)
    middle = time.perf_counter()
    solution.vjp(x_bar)
    return solution, middle - start, time.perf_counter() - middle


def grow(chain: Chain, seconds: float) -> Growth:
    """Measures one size, in a process that did nothing else before."""
    tiny = Chain(TINY)
    once(tiny.program().fields(), tiny.cotangent())
    qp, x_bar = chain.program(), chain.cotangent()
    gc.collect()
    forget_peak()
    before = memory_now("VmRSS")
    solution, *first = once(qp.fields(), x_bar)
    memory = memory_now("VmHWM") - before
    residual = worst_residual(qp, Point(solution.x, solution.y, solution.z, solution.z_box))
    status, active = solution.status.name, float(np.mean(solution.z_box != 0.0))
    del solution  # it holds the factors
    times = [first]
    while sum(map(sum, times)) < seconds:
        times.append(list(once(qp.fields(), x_bar)[1:]))
    forward, backward = (median(column) for column in zip(*times, strict=True))
    return Growth(chain.n, status, forward, backward, memory, residual, active, len(times))


def exponents(points: list[Growth]) -> dict[str, float]:
    """The slopes of log quantity over log n, by least squares; none where there are not two sizes."""
    slopes = {}
    for name in QUANTITIES:
        # A short chain may fit into memory that is there already, and raise no peak.
        pairs = [(point.n, getattr(point, name)) for point in points if getattr(point, name) > 0]
        if len({n for n, _ in pairs}) > 1:
            n, values = np.log(np.array(pairs, dtype=np.float64)).T
            slopes[name] = float(np.polyfit(n, values, 1)[0])
    return slopes
