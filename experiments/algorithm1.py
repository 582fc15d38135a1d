"""The paper's Algorithm 1 as one of the timed methods: x and a whole Jacobian, by forward recursion."""

from __future__ import annotations

from typing import Any

import numpy as np
from altdiff import alternating_differentiation

from benchmarks.peers.layers.base import Layer
from benchmarks.peers.problems import Array
from experiments.race import RESIDUAL
from experiments.results import Record

RHO = 1.0  # the authors'
MOST_ROUNDS = 100_000


class Algorithm1(Layer):
    """Forward is the recursion; backward only multiplies the Jacobian by the cotangent."""

    def __init__(self, data: dict[str, Any], x_bar: Array, wrt: str, method: str, tolerance: float) -> None:
        self.data, self.x_bar, self.wrt = data, x_bar, wrt
        self.stop: dict[str, Any] = {
            "stopping": "residual" if method == RESIDUAL else "paper",
            "tolerance": tolerance,
            "rho": RHO,
            "max_iterations": MOST_ROUNDS,
        }
        self.result: Any = None
        self.gradient = np.zeros(0)

    def forward(self) -> None:
        """From zero, as in the paper."""
        self.result = alternating_differentiation(**self.data, wrt=self.wrt, **self.stop)

    def backward(self) -> None:
        """J'x_bar; with x_bar = 1 these are the column sums of J."""
        self.gradient = self.result.jacobian.T @ self.x_bar

    def reset(self) -> None:
        """Frees the Jacobian."""
        self.result, self.gradient = None, np.zeros(0)

    def solution(self) -> Array:
        """The last iterate."""
        return np.asarray(self.result.x)

    def gradients(self) -> dict[str, Array]:
        """Of the one field."""
        return {self.wrt: self.gradient}

    def facts(self) -> Record:
        """How long it ran."""
        return {"rounds": self.result.iterations, "converged": self.result.converged}
