"""jaxopt and qpax, compiled ahead of time and mapped over the batch."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers.layers.base import Layer
from benchmarks.peers.problems import FIELDS, Array, Problem

JAX: Any = importlib.import_module("jax")
TOLERANCE = 1e-9
JAXOPT_TOLERANCE = 1e-8


class JaxLayer(Layer):
    """A function that JAX differentiates; a subclass says which. Its threads are the cores it may use."""

    def __init__(self, problem: Problem, threads: int) -> None:
        JAX.config.update("jax_enable_x64", True)
        self.problem = problem
        self.inputs = [JAX.numpy.asarray(getattr(problem, name)) for name in FIELDS]
        self.x_bar = JAX.numpy.asarray(problem.x_bar)
        solve = self.make_solve()
        if not problem.single:
            solve = JAX.vmap(solve, in_axes=tuple(None if problem.is_shared(name) else 0 for name in FIELDS))
        lowered = JAX.jit(lambda *inputs: JAX.vjp(solve, *inputs)).lower(*self.inputs)
        self.solve = lowered.compile()
        _, pullback = lowered.out_info  # a pytree: its shapes are known without solving
        self.pull = JAX.jit(lambda pullback, x_bar: pullback(x_bar)).lower(pullback, self.x_bar).compile()
        self.reset()

    @abstractmethod
    def make_solve(self) -> Any:
        """x of (P, q, G, h, A, b), for one instance."""

    def forward(self) -> None:
        """Waits for the result: JAX computes in the background."""
        self.x, self.pullback = JAX.block_until_ready(self.solve(*self.inputs))

    def backward(self) -> None:
        """The same."""
        self.fields = JAX.block_until_ready(self.pull(self.pullback, self.x_bar))

    def reset(self) -> None:
        """Frees the residuals and the gradients."""
        self.x, self.pullback, self.fields = None, None, None

    def solution(self) -> Array:
        """x."""
        return np.array(self.x)

    def gradients(self) -> dict[str, Array]:
        """Of the fields."""
        return {name: np.array(value) for name, value in zip(FIELDS, self.fields, strict=True)}


class JaxoptLayer(JaxLayer):
    """jaxopt.OSQP."""

    def make_solve(self) -> Any:
        """The adjoint's default solver stops far too early."""
        jaxopt: Any = importlib.import_module("jaxopt")
        adjoint = partial(jaxopt.linear_solve.solve_normal_cg, tol=1e-12, maxiter=1000)
        solver = jaxopt.OSQP(
            tol=JAXOPT_TOLERANCE, eq_qp_solve="lu", maxiter=20_000, implicit_diff_solve=adjoint
        )
        equalities = self.problem.p > 0

        def solve(P: Any, q: Any, G: Any, h: Any, A: Any, b: Any) -> Any:
            run = solver.run(params_obj=(P, q), params_eq=(A, b) if equalities else None, params_ineq=(G, h))
            return run.params.primal

        return solve


class QpaxLayer(JaxLayer):
    """qpax.solve_qp_primal."""

    def make_solve(self) -> Any:
        """The implicit backend: the explicit one has a factor z too many in the gradient of G."""
        qpax: Any = importlib.import_module("qpax")
        accurate = {"backend": "i", "solver_tol": TOLERANCE, "target_kappa": TOLERANCE, "max_iter": 50}

        def solve(P: Any, q: Any, G: Any, h: Any, A: Any, b: Any) -> Any:
            return qpax.solve_qp_primal(P, q, A, b, G, h, **accurate)

        return solve
