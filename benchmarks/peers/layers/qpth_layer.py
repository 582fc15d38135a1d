"""OptNet's qpth."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch

from benchmarks.peers.layers.base import Tensor, TorchLayer
from benchmarks.peers.problems import FIELDS, Array, Problem

QPTH: Any = importlib.import_module("qpth.qp")


class QpthLayer(TorchLayer):
    """x = QPFunction()(Q, p, G, h, A, b)."""

    def __init__(self, problem: Problem, threads: int) -> None:
        super().__init__(problem, threads)
        self.function = QPTH.QPFunction(verbose=-1)

    def solve(self) -> Tensor:
        """An empty tensor is an absent block."""
        inputs = (self.leaves[name] for name in FIELDS)
        x: Tensor = self.function(*(tensor if tensor.numel() else torch.Tensor() for tensor in inputs))
        return x

    def gradient(self, name: str) -> Array:
        """qpth gives the mean over the batch where a field is shared; everyone else gives the sum."""
        weight = self.problem.batch if self.problem.is_shared(name) else 1
        return np.asarray(weight * super().gradient(name))
