"""Methods for the paper's dense quadratic programs (tables 1 and 2, figure 1).

The quantity is the paper's: the column sums of dx/db, that is the gradient of sum(x). Algorithm 1 makes the
whole Jacobian for it; layers make the gradients of all of P, q, G, h, A, b by one adjoint.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from altdiff.torch import QPLayer

from benchmarks.peers.layers import LIBRARIES
from benchmarks.peers.layers.base import Layer
from benchmarks.peers.problems import FIELDS, Problem, paper_problem
from benchmarks.peers.reference import Reference, solve_reference
from experiments.algorithm1 import Algorithm1
from experiments.race import ALGORITHM, ALTDIFF, RESIDUAL, Contest, cosine
from experiments.results import Record

Size = tuple[int, int, int]  # n, inequalities, equalities
PEERS = ("qpth", "cvxpylayers", "proxqp", "moreau", "jaxopt")
METHODS = (ALTDIFF, ALGORITHM, RESIDUAL, *PEERS)
# The peers that offer a tolerance, and where their adapters keep it.
SETTABLE = ("qpth", "cvxpylayers", "proxqp")


def paper_case(size: Size, seed: int) -> Problem:
    """All data N(0, 1), P = R'R, and the cotangent of the paper's quantity."""
    return replace(paper_problem(*size, seed), x_bar=np.ones(size[0]))


def write_case(size: Size, seed: int, folder: Path) -> None:
    """The problem and its exact solution, as files."""
    problem = paper_case(size, seed)
    problem.save(folder)
    solve_reference(problem).save(folder)


def set_tolerance(layer: Any, method: str, tolerance: float) -> None:
    """Each library has a place of its own for it."""
    if method == ALTDIFF:
        layer.layer = QPLayer(**layer.layer.settings | {"tolerance": tolerance})
    elif method == "qpth":
        layer.function = importlib.import_module("qpth.qp").QPFunction(verbose=-1, eps=tolerance)
    elif method == "cvxpylayers":
        layer.arguments = layer.arguments | {"eps": tolerance}
    elif method == "proxqp":
        layer.function = importlib.import_module("proxsuite.torch.qplayer").QPFunction(eps=tolerance)
    else:
        raise ValueError(f"{method} takes no tolerance")


class DenseContest(Contest):
    """The layers of `benchmarks.peers`, and Algorithm 1."""

    def layer_of(self, folder: Path | None) -> Layer:
        """The folder's problem, or a tiny one."""
        problem = paper_case((8, 3, 2), 0) if folder is None else Problem.load(folder)
        if self.method in (ALGORITHM, RESIDUAL):
            data = {name: getattr(problem, name) for name in FIELDS}
            return Algorithm1(data, problem.x_bar, "b", self.method, self.tolerance or 1e-3)
        entry = LIBRARIES[self.method]
        kind = getattr(importlib.import_module(f"benchmarks.peers.layers.{entry.module}"), entry.layer)
        layer: Layer = kind(problem, self.threads)
        if self.tolerance is not None:
            set_tolerance(layer, self.method, self.tolerance)
        return layer

    def facts(self) -> Record:
        """The paper's measure of a gradient: its angle to the exact one."""
        exact = Reference.load(self.folder)
        return super().facts() | {"cosine": cosine(self.ready().gradients()["b"], -exact.v)}
