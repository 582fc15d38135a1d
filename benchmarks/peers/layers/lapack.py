"""LAPACK's dpotrf: the unit that times are also given in, because machines differ."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from benchmarks.peers.layers.base import Layer
from benchmarks.peers.problems import Array, Problem


class Dpotrf(Layer):
    """One Cholesky factorisation of P, of the first instance if there are many."""

    def __init__(self, problem: Problem, threads: int) -> None:
        self.P = np.asfortranarray(problem.instance("P", 0))  # LAPACK's layout, so nothing is transposed
        self.threads = threads  # set in the environment of the process

    def forward(self) -> None:
        """Factorises."""
        dpotrf(self.P, clean=False)

    def backward(self) -> None:
        """There is none."""

    def reset(self) -> None:
        """Nothing is kept."""

    def solution(self) -> Array:
        """There is none."""
        return np.zeros(0)

    def gradients(self) -> dict[str, Array]:
        """There are none."""
        return {}
