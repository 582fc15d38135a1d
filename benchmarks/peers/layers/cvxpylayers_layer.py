"""cvxpylayers with diffcp. P enters by its Cholesky factor: a parametrised quadratic form is not DPP."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from benchmarks.peers.layers.base import Tensor, TorchLayer
from benchmarks.peers.problems import FIELDS, Problem

CVXPY: Any = importlib.import_module("cvxpy")
CVXPYLAYERS: Any = importlib.import_module("cvxpylayers.torch")
importlib.import_module("diffcp")
ACCURATE: dict[str, Any] = {"solve_method": "SCS", "eps": 1e-9, "max_iters": 100_000, "mode": "dense"}


class CvxpylayersLayer(TorchLayer):
    """min 1/2 |F x|^2 + q'x with F'F = P."""

    def __init__(self, problem: Problem, threads: int) -> None:
        super().__init__(problem, threads)
        x = CVXPY.Variable(problem.n)
        shapes = {"F": (problem.n, problem.n), "q": problem.n, "G": (problem.m, problem.n), "h": problem.m}
        if problem.p:
            shapes |= {"A": (problem.p, problem.n), "b": problem.p}
        of = {name: CVXPY.Parameter(shape) for name, shape in shapes.items()}
        constraints = [of["G"] @ x <= of["h"]]
        if problem.p:
            constraints.append(of["A"] @ x == of["b"])
        cost = 0.5 * CVXPY.sum_squares(of["F"] @ x) + of["q"] @ x
        parametrised = CVXPY.Problem(CVXPY.Minimize(cost), constraints)
        self.layer = CVXPYLAYERS.CvxpyLayer(parametrised, list(of.values()), [x])
        self.arguments = ACCURATE

    def solve(self) -> Tensor:
        """One instance after another, inside the layer."""
        P, *others = (self.leaves[name] for name in FIELDS if self.leaves[name].numel())
        factor = torch.linalg.cholesky(P).mT
        x: Tensor = self.layer(factor, *others, solver_args=self.arguments)[0]
        return x
