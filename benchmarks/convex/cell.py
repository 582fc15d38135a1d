"""One layer on one workload, in a process of its own.

    python -m benchmarks.convex.cell altdiff logistic-20-10-2

says that it is ready, reads a number of seconds from every line of its input, and answers with times and
errors as JSON.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.convex.workloads import Workload, reference
from benchmarks.turns import serve, timed

LAYERS = ("altdiff", "moreau", "cvxpylayers")


def altdiff_layer(workload: Workload) -> Callable[..., Any]:
    """Ours, with a built-in objective."""
    from altdiff.torch import ConvexLayer, Linear, Separable, builder

    if workload.kind == "softmax":
        layer = ConvexLayer(builder(lambda q: Linear(q) + Separable("entropy")))
    else:
        layer = ConvexLayer(builder(lambda M: Separable("softplus", M=M) + Separable("square")))

    def solve(first: Any, A: Any, b: Any, G: Any, h: Any) -> Any:
        return layer(first, A=A, b=b, G=G, h=h)

    return solve


def cvxpylayers_layer(workload: Workload, solver: str | None) -> Callable[..., Any]:
    """cvxpylayers, with diffcp (None) or another solver."""
    cp: Any = importlib.import_module("cvxpy")
    layers: Any = importlib.import_module("cvxpylayers.torch")
    n, m, p = workload.n, workload.m, workload.p
    x = cp.Variable(n)
    A, b, G, h = cp.Parameter((p, n)), cp.Parameter(p), cp.Parameter((m, n)), cp.Parameter(m)
    if workload.kind == "softmax":
        first = cp.Parameter(n)
        cost = first @ x - cp.sum(cp.entr(x))
    else:
        first = cp.Parameter((2 * n, n))
        cost = cp.sum(cp.logistic(first @ x)) + 0.5 * cp.sum_squares(x)
    problem = cp.Problem(cp.Minimize(cost), [A @ x == b, G @ x <= h])
    options: dict[str, Any] = {} if solver is None else {"solver": solver}
    layer: Any = layers.CvxpyLayer(problem, [first, A, b, G, h], [x], **options)
    return lambda *numbers: layer(*numbers)[0]


def layer_named(name: str, workload: Workload) -> Callable[..., Any]:
    """Builds one of LAYERS."""
    if name == "altdiff":
        return altdiff_layer(workload)
    return cvxpylayers_layer(workload, "MOREAU" if name == "moreau" else None)


class Contestant:
    """A layer with the numbers of a workload."""

    def __init__(self, name: str, workload: Workload) -> None:
        torch.set_num_threads(1)
        self.workload = workload
        self.layer = layer_named(name, workload)
        self.numbers = {k: torch.tensor(v, requires_grad=True) for k, v in workload.numbers().items()}
        self.bar = torch.linspace(0.5, 1.5, workload.n, dtype=torch.float64)
        x, gradients = self.call()  # not timed: the first one
        self.errors = _errors(workload, x, dict(zip(self.numbers, gradients, strict=True)), self.bar)

    def call(self) -> tuple[Any, tuple[Any, ...]]:
        """x and the gradients."""
        x = self.layer(*self.numbers.values())
        bars = self.bar.expand(self.workload.batch, -1) if self.workload.batch else self.bar
        return x, torch.autograd.grad(x, list(self.numbers.values()), bars)

    def turn(self, seconds: float) -> dict[str, Any]:
        """Median time of forward and backward together, and the largest relative errors."""
        return {**timed(self.call, seconds), **self.errors}


def _errors(workload: Workload, x: Any, found: dict[str, Any], bar: Any) -> dict[str, float]:
    """Against a reference on the active rows that our own layer finds; of a batch the first instance."""
    from altdiff.torch import Linear, Separable, solve_convex

    of = workload.first_instance()
    if workload.batch:  # gradients of what instances share are sums
        name = next(iter(found))
        x, found = x[0], {name: found[name][0]}
    constraints: dict[str, Any] = {name: of[name] for name in ("A", "b", "G", "h")}
    softmax = workload.kind == "softmax"
    objective = (
        Linear(of["q"]) + Separable("entropy")
        if softmax
        else Separable("softplus", M=of["M"]) + Separable("square")
    )
    solution: Any = solve_convex(objective, **constraints)
    exact, gradients = reference(workload, solution.x.numpy(), solution.z.numpy(), bar.numpy())
    errors = [
        np.abs(value.numpy() - gradients[name]).max() / np.abs(gradients[name]).max()
        for name, value in found.items()
        if name in gradients
    ]
    return {
        "x": float(np.abs(x.detach().numpy() - exact).max() / np.abs(exact).max()),
        "gradient": float(max(errors)),
    }


def main() -> None:
    """Says that it is ready, then takes a turn for every line."""
    serve(Contestant(sys.argv[1], Workload.named(sys.argv[2])).turn)


if __name__ == "__main__":
    main()
