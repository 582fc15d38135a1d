"""OSQP's torch layer: l <= C x <= u."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import torch

from benchmarks.peers.layers.base import Tensor
from benchmarks.peers.layers.stacked import StackedLayer
from benchmarks.peers.problems import Array, Problem

OSQP: Any = importlib.import_module("osqp.nn.torch")
TOLERANCE = 1e-9  # at 1e-7 gradients can be off by more than 1e-4


class OsqpLayer(StackedLayer):
    """x = OSQP(pattern)(P, q, C, l, u)."""

    by_columns = True  # gradients come in this order, whatever was given

    def __init__(self, problem: Problem, threads: int) -> None:
        super().__init__(problem, threads)
        P, C = self.of_P, self.of_C
        patterns = ((P.rows, P.columns), P.mask.shape, (C.rows, C.columns), C.mask.shape)
        self.layer = OSQP.OSQP(*patterns, eps_rel=TOLERANCE, eps_abs=TOLERANCE)

    def make_leaves(self, problem: Problem) -> dict[str, Tensor]:
        """d is the upper bound; the lower one is equal on the equalities, and absent elsewhere."""
        leaves = super().make_leaves(problem)
        lower = leaves["d"].detach().clone()
        lower[..., problem.p :] = -math.inf
        return {**leaves, "lower": lower.requires_grad_()}

    def solve(self) -> Tensor:
        """One instance after another, inside the layer."""
        P, C, q, d, lower = self.leaves.values()
        x: Tensor = self.layer(P, q, C, lower, d)
        return x

    def right_side(self) -> Array:
        """Both bounds of an equality are b."""
        total = torch.from_numpy(self.gradient("d")).clone()
        total[..., : self.problem.p] += torch.from_numpy(self.gradient("lower"))[..., : self.problem.p]
        return np.asarray(total.numpy())
