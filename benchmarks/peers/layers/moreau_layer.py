"""Moreau's torch solver: conic form, C x + s = d with s zero on the equalities and not negative elsewhere."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch

from benchmarks.peers.layers.base import Tensor
from benchmarks.peers.layers.stacked import Pattern, StackedLayer
from benchmarks.peers.problems import Array, Problem

MOREAU: Any = importlib.import_module("moreau")
MOREAU_TORCH: Any = importlib.import_module("moreau.torch")


def compressed_rows(pattern: Pattern) -> tuple[Tensor, Tensor]:
    """Offsets and column indices."""
    offsets = np.concatenate([[0], np.cumsum(pattern.mask.sum(axis=1))])
    return torch.from_numpy(offsets), torch.from_numpy(pattern.columns)


class MoreauLayer(StackedLayer):
    """x = Solver(pattern, cones).solve(P, C, q, d).x."""

    def __init__(self, problem: Problem, threads: int) -> None:
        super().__init__(problem, threads)
        self.solver = MOREAU_TORCH.Solver(
            problem.n,
            problem.p + problem.m,
            *compressed_rows(self.of_P),
            *compressed_rows(self.of_C),
            MOREAU.Cones(num_zero_cones=problem.p, num_nonneg_cones=problem.m),
            MOREAU.Settings(device="cpu", batch_size=problem.batch),
        )

    def solve(self) -> Tensor:
        """q and d have to be batched alike, and so have P and C."""
        P, C, q, d = self.leaves.values()
        if d.dim() < q.dim():
            d = d.expand(self.problem.batch, -1).contiguous()
        x: Tensor = self.solver.solve(P, C, q, d).x
        return x

    def solution(self) -> Array:
        """Raises if an instance is not solved: the call itself does not."""
        status = self.solver.info.status
        statuses = [str(one) for one in (status if isinstance(status, list) else [status])]
        failed = [one for one in statuses if one != "Solved"]
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(statuses)} instances: {failed[0]}")
        return super().solution()
