"""ProxQP's torch layer (proxsuite)."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.peers.layers.base import Tensor, TorchLayer
from benchmarks.peers.problems import Problem

PROXQP: Any = importlib.import_module("proxsuite.torch.qplayer")
NO_BOUND = -1e20  # what proxsuite takes for minus infinity


class ProxqpLayer(TorchLayer):
    """x, y, z = QPFunction()(Q, p, A, b, G, l, u)."""

    parallel = False

    def __init__(self, problem: Problem, threads: int) -> None:
        super().__init__(problem, threads)
        self.lower = torch.full_like(self.leaves["h"], NO_BOUND, requires_grad=False)
        self.function = PROXQP.QPFunction(omp_parallel=self.parallel)

    def solve(self) -> Tensor:
        """An empty tensor is an absent block."""
        P, q, G, h, A, b = self.leaves.values()
        if not b.numel():
            A, b = torch.Tensor(), torch.Tensor()
        x: Tensor = self.function(P, q, A, b, G, self.lower, h)[0]
        return x


class ParallelProxqpLayer(ProxqpLayer):
    """The same, with the instances of a batch side by side."""

    parallel = True

    def __init__(self, problem: Problem, threads: int) -> None:
        super().__init__(problem, threads)
        # The layer offers no number of threads: it takes half of what os.cpu_count says.
        PROXQP.os = SimpleNamespace(cpu_count=lambda: 2 * threads)
