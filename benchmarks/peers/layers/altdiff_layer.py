"""altdiff.torch.QPLayer."""

from __future__ import annotations

from altdiff.torch import QPLayer

from benchmarks.peers.layers.base import Tensor, TorchLayer
from benchmarks.peers.problems import Problem


class AltdiffLayer(TorchLayer):
    """x = QPLayer()(P, q, G, h, A, b)."""

    def __init__(self, problem: Problem, threads: int) -> None:
        super().__init__(problem, threads)
        self.layer = QPLayer(num_threads=threads)

    def solve(self) -> Tensor:
        """An absent block is left out."""
        x: Tensor = self.layer(**{name: tensor for name, tensor in self.leaves.items() if tensor.numel()})
        return x
