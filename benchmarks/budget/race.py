"""Times functions of one batch in turns, so that a disturbance meets everyone."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from altdiff.torch import softmax, sparsemax

from benchmarks.peers.measure import BURST, LARGEST_BURST

TORCH = "torch.softmax"
Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Runner:
    """One function: median seconds, and the error against itself in float64."""

    name: str
    function: Function
    forward: list[float] = field(default_factory=list)
    backward: list[float] = field(default_factory=list)
    error: float = 0.0

    @property
    def seconds(self) -> tuple[float, float]:
        """Medians of forward and backward."""
        return median(self.forward), median(self.backward)


def functions(n: int) -> dict[str, Function]:
    """What is timed on rows of n entries; entmax if it is installed."""
    found: dict[str, Function] = {
        TORCH: lambda y: torch.softmax(y, -1),
        "softmax": softmax,
        "softmax, cap 0.05": lambda y: softmax(y, max(0.05, 2 / n)),
        "softmax, cap 3/n": lambda y: softmax(y, 3 / n),
        "sparsemax": sparsemax,
        "sparsemax, cap 0.03": lambda y: sparsemax(y, max(0.03, 2 / n)),
        "sparsemax, cap 3/n": lambda y: sparsemax(y, 3 / n),
    }
    try:
        entmax: Any = importlib.import_module("entmax")
    except ImportError:
        return found
    return {**found, "entmax.sparsemax": lambda y: entmax.sparsemax(y, -1)}


def race(rows: int, n: int, dtype: torch.dtype, seconds: float) -> list[Runner]:
    """All functions on one batch of normal numbers."""
    y = torch.randn(rows, n, generator=torch.Generator().manual_seed(0)).to(dtype)
    bar = torch.randn(rows, n, generator=torch.Generator().manual_seed(1)).to(dtype)
    runners = [Runner(name, function) for name, function in functions(n).items()]
    for runner in runners:
        _time(runner, y, bar)  # without the first call
        runner.forward.clear()
        runner.backward.clear()
        exact = runner.function(y.double())
        runner.error = float((runner.function(y).double() - exact).abs().max() / exact.abs().max())
    end = time.perf_counter() + seconds * len(runners)
    while time.perf_counter() < end or len(runners[0].forward) < 3:
        for runner in runners:
            begin = time.perf_counter()
            for _ in range(LARGEST_BURST):
                _time(runner, y, bar)
                if time.perf_counter() - begin > BURST:
                    break
    return runners


def _time(runner: Runner, y: torch.Tensor, bar: torch.Tensor) -> None:
    # The time of the one thread does not count what else the machine does.
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    leaf = y.requires_grad_()
    begin = clock()
    x = runner.function(leaf)
    middle = clock()
    torch.autograd.grad(x, leaf, bar)
    runner.forward.append(middle - begin)
    runner.backward.append(clock() - middle)
