"""One adapter a library, for sparse data. Each class imports its library; importing this imports none."""

from __future__ import annotations

import importlib
from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp
import torch
from altdiff import QuadraticProgram

from benchmarks.chain.problems import Array
from benchmarks.peers.layers.base import Layer, LeafLayer, Tensor, leaf
from benchmarks.sets.solvers import whole

TOLERANCE = 1e-9
# The default, lsqr, stops where gradients are off by 4e-4; dense takes minutes for 1200 variables.
DIFFCP: dict[str, Any] = {"solve_method": "SCS", "eps": TOLERANCE, "max_iters": 100_000, "mode": "lsmr"}


class AltdiffLayer(Layer):
    """altdiff.solve_qp, and vjp of its solution."""

    def __init__(self, qp: QuadraticProgram, x_bar: Array, threads: int) -> None:
        self.fields, self.x_bar, self.threads = qp.fields(), x_bar, threads
        self.found: Any = None
        self.gradient: Any = None

    def forward(self) -> None:
        """Solves."""
        self.found = altdiff.solve_qp(**self.fields, num_threads=self.threads)

    def backward(self) -> None:
        """Gradients of all fields."""
        self.gradient = self.found.vjp(self.x_bar)

    def reset(self) -> None:
        """Frees the factors."""
        self.found, self.gradient = None, None

    def solution(self) -> Array:
        """x."""
        return np.asarray(self.found.x)

    def gradients(self) -> dict[str, Array]:
        """Of q, which all libraries give."""
        return {"q": np.asarray(self.gradient.q)}


class OsqpLayer(LeafLayer):
    """OSQP's torch layer: l <= C x <= u with C = [A; I]."""

    def __init__(self, qp: QuadraticProgram, x_bar: Array, threads: int) -> None:
        library: Any = importlib.import_module("osqp.nn.torch")
        full = whole(qp)
        P, C = full.P.tocoo(), sp.vstack([full.A, sp.eye_array(qp.q.size)], format="csc").tocoo()
        lower, upper = np.concatenate([full.b, full.lb]), np.concatenate([full.b, full.ub])
        inputs = {"P": P.data, "q": qp.q, "C": C.data, "lower": lower, "upper": upper}
        super().__init__({name: leaf(value) for name, value in inputs.items()}, x_bar, threads)
        patterns = ((P.row, P.col), P.shape, (C.row, C.col), C.shape)
        self.layer = library.OSQP(*patterns, eps_rel=TOLERANCE, eps_abs=TOLERANCE)

    def solve(self) -> Tensor:
        """Its call."""
        x: Tensor = self.layer(*self.leaves.values())
        return x


class MoreauLayer(LeafLayer):
    """Moreau's torch solver: C x + s = d with C = [A; I; -I], s zero on the equalities, else s >= 0."""

    def __init__(self, qp: QuadraticProgram, x_bar: Array, threads: int) -> None:
        moreau: Any = importlib.import_module("moreau")
        library: Any = importlib.import_module("moreau.torch")
        n, eye, full = qp.q.size, sp.eye_array(qp.q.size), whole(qp)
        P, C = full.P.tocsr(), sp.vstack([full.A, eye, -eye], format="csr")
        d = np.concatenate([full.b, full.ub, -full.lb])
        inputs = {"P": P.data, "C": C.data, "q": qp.q, "d": d}
        super().__init__({name: leaf(value) for name, value in inputs.items()}, x_bar, threads)
        offsets = (torch.from_numpy(part.astype(np.int64)) for m in (P, C) for part in (m.indptr, m.indices))
        accurate = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), TOLERANCE)
        self.solver = library.Solver(
            n,
            C.shape[0],
            *offsets,
            moreau.Cones(num_zero_cones=C.shape[0] - 2 * n, num_nonneg_cones=2 * n),
            moreau.Settings(device="cpu", batch_size=1, ipm_settings=moreau.IPMSettings(**accurate)),
        )

    def solve(self) -> Tensor:
        """Its call."""
        x: Tensor = self.solver.solve(*self.leaves.values()).x
        return x

    def solution(self) -> Array:
        """Raises if the problem is not solved: the call itself does not."""
        status = str(self.solver.info.status)
        if status != "Solved":
            raise RuntimeError(status)
        return super().solution().ravel()


class CvxpylayersLayer(LeafLayer):
    """cvxpylayers with diffcp: min 1/2 |P^(1/2) x|^2 + q'x, with q and b as parameters, all else constant."""

    def __init__(self, qp: QuadraticProgram, x_bar: Array, threads: int) -> None:
        cvxpy: Any = importlib.import_module("cvxpy")
        library: Any = importlib.import_module("cvxpylayers.torch")
        full = whole(qp)
        super().__init__({"q": leaf(full.q), "b": leaf(full.b)}, x_bar, threads)
        x, q, b = cvxpy.Variable(full.q.size), cvxpy.Parameter(full.q.size), cvxpy.Parameter(full.b.size)
        root = sp.diags_array(np.sqrt(full.P.diagonal()), format="csc")
        cost = 0.5 * cvxpy.sum_squares(root @ x) + q @ x
        rows = [full.A @ x == b, x <= full.ub, x >= full.lb]
        self.layer = library.CvxpyLayer(cvxpy.Problem(cvxpy.Minimize(cost), rows), [q, b], [x])
        self.arguments = DIFFCP

    def solve(self) -> Tensor:
        """Its call."""
        x: Tensor = self.layer(*self.leaves.values(), solver_args=self.arguments)[0]
        return x


LAYERS: dict[str, Any] = {
    "altdiff": AltdiffLayer,
    "osqp": OsqpLayer,
    "moreau": MoreauLayer,
    "cvxpylayers": CvxpylayersLayer,
}
