"""One workload of docs/performance.md in one installation: `python -m benchmarks.change.cell own-50`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altdiff
import torch
from altdiff.torch import softmax, sparsemax

from benchmarks.chain.problems import Chain
from benchmarks.convex.cell import Contestant
from benchmarks.convex.workloads import WORKLOADS as CONVEX
from benchmarks.convex.workloads import Workload
from benchmarks.peers.layers.altdiff_layer import AltdiffLayer
from benchmarks.peers.workloads import WORKLOADS as DENSE
from benchmarks.turns import serve, timed

CHAINS = {"chain-600": Chain(100), "chain-60000": Chain(10_000)}
BUDGETS: dict[str, Callable[[Any], Any]] = {
    "softmax": softmax,
    "softmax-cap": lambda t: softmax(t, upper=3 / t.shape[-1]),
    "sparsemax": sparsemax,
    "sparsemax-cap": lambda t: sparsemax(t, upper=3 / t.shape[-1]),
}
LARGEST = 3000  # dense programs beyond it take seconds
NAMES = (
    *(name for name, workload in DENSE.items() if workload.n <= LARGEST),
    *(workload.name for workload in CONVEX),
    *CHAINS,
    *BUDGETS,
)


def dense(name: str) -> Callable[[], object]:
    """Forward and backward of a QPLayer with the gradients of all fields."""
    layer = AltdiffLayer(DENSE[name].make(), threads=2)

    def call() -> None:
        layer.reset()
        layer.forward()
        layer.backward()

    return call


def chain(name: str) -> Callable[[], object]:
    """solve_qp and vjp of a sparse program."""
    fields, x_bar = CHAINS[name].program().fields(), CHAINS[name].cotangent()
    return lambda: altdiff.solve_qp(**fields).vjp(x_bar)


def budget(name: str) -> Callable[[], object]:
    """Forward and backward of rows of 1000 entries, float32."""
    rows = torch.randn(1024, 1000, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bar = torch.randn(1024, 1000, generator=torch.Generator().manual_seed(1))
    return lambda: torch.autograd.grad(BUDGETS[name](rows), rows, bar)


def file(name: str) -> Callable[[], object]:
    """solve_qp of a program in a file that `altdiff.read_qp` reads."""
    fields = altdiff.read_qp(name).fields()
    return lambda: altdiff.solve_qp(**fields)


def call_of(name: str) -> Callable[[], object]:
    """What one of NAMES times, or a file."""
    if Path(name).exists():
        return file(name)
    if name in DENSE:
        return dense(name)
    if name in CHAINS:
        return chain(name)
    if name in BUDGETS:
        return budget(name)
    return Contestant("altdiff", Workload.named(name)).call


def main() -> None:
    """The first calls are not timed."""
    call = call_of(sys.argv[1])
    for _ in range(3):
        call()
    serve(lambda seconds: timed(call, seconds))


if __name__ == "__main__":
    main()
