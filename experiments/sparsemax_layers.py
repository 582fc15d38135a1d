"""Methods for the constrained sparsemax of tables 4 and 5:  min |x - y|^2  with  1'x = 1,  0 <= x <= u."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from altdiff import QuadraticProgram
from altdiff.torch import QPLayer, sparsemax

from benchmarks.peers.layers.base import Layer, LeafLayer, Tensor, leaf
from benchmarks.peers.problems import Array, Problem
from benchmarks.peers.reference import Saved
from experiments.algorithm1 import Algorithm1
from experiments.race import ALGORITHM, ALTDIFF, RESIDUAL, Contest, cosine, relative
from experiments.results import Record

AS_QP = "altdiff-qp"  # altdiff's general layer, on sparse tensors
ABSOLUTE = "algorithm1-absolute"  # residuals below 1e-6 as they are, where x itself is of order 1/n
OF_Y = "algorithm1-y"  # Algorithm 1 with the Jacobian that a layer needs, n x n
METHODS = (ALTDIFF, AS_QP, ALGORITHM, RESIDUAL, ABSOLUTE, OF_Y, "qpth", "cvxpylayers", "osqp", "moreau")
ABSOLUTE_TOLERANCE = 1e-6
SETTABLE = (AS_QP, ALGORITHM, "cvxpylayers")
SCALE = 2.0  # of y and u, in units of 1/n: variables end at zero, between and at their caps in equal measure


@dataclass(frozen=True)
class Sparsemax(Saved):
    """An instance with its exact solution and derivatives."""

    y: Array
    u: Array
    x_bar: Array
    x: Array
    y_bar: Array  # gradient of <x_bar, x>
    dx_db: Array  # of the total: the one column of the paper's Jacobian


def threshold(y: Array, u: Array) -> float:
    """tau with sum(clip(y - tau, 0, u)) = 1: piecewise linear, so a bracket of two kinks has it."""
    full = y - u  # below this threshold an entry is at its cap, above y it is zero
    kinks = np.sort(np.concatenate([y, full]))
    low, high = 0, kinks.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if np.clip(y - kinks[middle], 0.0, u).sum() >= 1.0:
            low = middle
        else:
            high = middle
    at_cap = full >= kinks[high]
    free = (y >= kinks[high]) & (full <= kinks[low])
    return float((y[free].sum() + u[at_cap].sum() - 1.0) / max(int(free.sum()), 1))


def make_case(n: int, seed: int) -> Sparsemax:
    """y ~ N(0, 1) and u ~ U(0, 2), both in units of 2/n."""
    rng = np.random.default_rng(seed)
    y, u, x_bar = rng.normal(size=n), rng.uniform(0.0, 2.0, size=n), rng.normal(size=n)
    y, u = SCALE / n * y, SCALE / n * u
    tau = threshold(y, u)
    x = np.clip(y - tau, 0.0, u)
    free = (x > 0.0) & (x < u)
    count = max(int(free.sum()), 1)
    y_bar = np.where(free, x_bar - x_bar[free].sum() / count, 0.0)
    return Sparsemax(y, u, x_bar, x, y_bar, free / count)


def write_case(n: int, seed: int, folder: Path) -> None:
    """As files."""
    make_case(n, seed).save(folder)


def program(case: Sparsemax) -> QuadraticProgram:
    """As a sparse quadratic program; q = -2 y."""
    n = case.y.size
    identity = sp.identity(n, format="csc")
    return QuadraticProgram(
        P=2.0 * identity,
        q=-2.0 * case.y,
        A=sp.csc_matrix(np.ones((1, n))),
        b=np.ones(1),
        lb=np.zeros(n),
        ub=case.u,
    )


def dense_problem(case: Sparsemax) -> Problem:
    """As qpth wants it: 2n rows of full length."""
    n = case.y.size
    eye = np.eye(n)
    G, h = np.concatenate([-eye, eye]), np.concatenate([np.zeros(n), case.u])
    return Problem(2.0 * eye, -2.0 * case.y, G, h, np.ones((1, n)), np.ones(1), case.x_bar)


class AltdiffSparsemax(LeafLayer):
    """altdiff.torch.sparsemax."""

    def __init__(self, case: Sparsemax, threads: int) -> None:
        super().__init__({"y": leaf(case.y), "u": leaf(case.u)}, case.x_bar, threads)

    def solve(self) -> Tensor:
        """O(n)."""
        x: Tensor = sparsemax(self.leaves["y"], upper=self.leaves["u"])
        return x


class AltdiffSparseQP(LeafLayer):
    """altdiff.torch.QPLayer, which knows nothing of simplices."""

    def __init__(self, case: Sparsemax, threads: int, tolerance: float | None) -> None:
        super().__init__({"y": leaf(case.y), "u": leaf(case.u)}, case.x_bar, threads)
        fields = program(case).fields()
        self.P, self.A = (sparse_tensor(fields[name]) for name in ("P", "A"))
        self.b, self.lb = (torch.from_numpy(fields[name]) for name in ("b", "lb"))
        chosen: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
        self.layer = QPLayer(num_threads=threads, **chosen)

    def solve(self) -> Tensor:
        """q = -2 y."""
        y, u = self.leaves.values()
        x: Tensor = self.layer(self.P, -2.0 * y, A=self.A, b=self.b, lb=self.lb, ub=u)
        return x


def sparse_tensor(matrix: sp.csc_matrix) -> Tensor:
    """From SciPy."""
    entries = matrix.tocoo()
    places = torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
    values = torch.from_numpy(entries.data)
    return torch.sparse_coo_tensor(places, values, matrix.shape, check_invariants=True).coalesce()


def algorithm1(case: Sparsemax, method: str, tolerance: float) -> Algorithm1:
    """With respect to b, as the paper has it, or to q = -2 y; residuals in the unit of the data."""
    if method == RESIDUAL:
        tolerance *= SCALE / case.y.size
    if method == ABSOLUTE:
        method, tolerance = RESIDUAL, ABSOLUTE_TOLERANCE
    data: dict[str, Any] = program(case).fields()
    wrt = "q" if method == OF_Y else "b"
    return Algorithm1(data, case.x_bar, wrt, ALGORITHM if method == OF_Y else method, tolerance)


def peer(case: Sparsemax, method: str, threads: int, tolerance: float | None) -> Layer:
    """The sparse layers of `benchmarks.chain`; qpth knows dense data only."""
    from benchmarks.chain import layers

    if method == "qpth":
        from benchmarks.peers.layers.qpth_layer import QpthLayer

        return QpthLayer(dense_problem(case), threads)
    make: Callable[..., Any] = layers.LAYERS[method]
    layer: Any = make(program(case), case.x_bar, threads)
    if tolerance is not None:
        layer.arguments = layer.arguments | {"eps": tolerance}
    return layer  # type: ignore[no-any-return]


class SparsemaxContest(Contest):
    """Sparsemax by every method."""

    def layer_of(self, folder: Path | None) -> Layer:
        """The folder's problem, or a tiny one."""
        case = make_case(20, 0) if folder is None else Sparsemax.load(folder)
        if self.method in (ALGORITHM, RESIDUAL, ABSOLUTE, OF_Y):
            return algorithm1(case, self.method, self.tolerance or 1e-3)
        if self.method == ALTDIFF:
            return AltdiffSparsemax(case, self.threads)
        if self.method == AS_QP:
            return AltdiffSparseQP(case, self.threads, self.tolerance)
        return peer(case, self.method, self.threads, self.tolerance)

    def derivative(self) -> tuple[Array, Array]:
        """What the method found, and what is exact: the gradient of y, or dx/db."""
        layer, exact = self.ready(), Sparsemax.load(self.folder)
        if isinstance(layer, Algorithm1) and layer.wrt == "b":
            return np.asarray(layer.result.jacobian[:, 0]), exact.dx_db
        found = layer.gradients()
        return (found["y"] if "y" in found else -2.0 * found["q"]).ravel(), exact.y_bar

    def errors(self, layer: Layer) -> dict[str, float]:
        """Of x and of the derivative, relative to their largest entries."""
        return {
            "x": relative(layer.solution(), Sparsemax.load(self.folder).x),
            "derivative": relative(*self.derivative()),
        }

    def facts(self) -> Record:
        """The paper's measure."""
        return super().facts() | {"cosine": cosine(*self.derivative())}
