"""Derivatives of smooth programs are linear maps: vjp is linear, and the adjoint of jvp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from altdiff import Linear, LogSumExp, Quadratic, Separable, Status, solve_convex
from altdiff._fields import CONSTRAINTS

if TYPE_CHECKING:
    from altdiff import ConvexSolution, Objective
    from altdiff._arrays import Array

KINDS = ("square", "entropy", "-log", "softplus", "exp", "pseudo-huber", "power", "binary entropy")


def objective_with(kind: str, rng: np.random.Generator, n: int) -> Objective:
    """A sum of a mapped term of this kind, a log-sum-exp and a ridge."""
    M = rng.normal(size=(n + 2, n))
    shift = {"entropy": -3.0, "-log": -3.0, "binary entropy": -0.5}.get(kind, 0.2)
    scale = 0.1 if kind == "binary entropy" else 0.5
    term = Separable(
        kind, rng.uniform(0.5, 2.0, n + 2), scale * M, shift, exponent=3.0 if kind == "power" else None
    )
    soft = LogSumExp(rng.normal(size=(3, n)), rng.normal(size=3), 0.7)
    return term + soft + Quadratic(np.eye(n), rng.normal(size=n)) + Linear(rng.normal(size=n))


def regular(kind: str) -> ConvexSolution:
    """With rows and bounds of which some hold."""
    rng = np.random.default_rng(KINDS.index(kind))
    n = 5
    G, A = rng.normal(size=(4, n)), rng.normal(size=(1, n))
    limits: dict[str, Any] = {"G": G, "h": 0.1 * np.ones(4), "A": A, "b": [0.1]}
    return solve_convex(objective_with(kind, rng, n), **limits, lb=-0.4 * np.ones(n), ub=0.3 * np.ones(n))


def at_a_kink(kind: str) -> ConvexSolution:
    """A bound and a row that hold without a multiplier."""
    rng = np.random.default_rng(KINDS.index(kind))
    n = 4
    objective = objective_with(kind, rng, n)
    x = solve_convex(objective).x
    G = rng.normal(size=(2, n))
    return solve_convex(objective, G=G, h=G @ x, ub=np.where(np.arange(n) == 1, x, np.inf))


def flat() -> ConvexSolution:
    """A face of solutions."""
    M = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 0.0]])
    objective = Separable("softplus", np.ones(2), M, [0.0, 1.0]) + Separable("square", np.ones(2), M)
    return solve_convex(objective, A=[[1.0, 0.0, 1.0]], b=[0.5])


PROGRAMS: dict[str, Any] = {
    **{kind: lambda kind=kind: regular(kind) for kind in KINDS},
    **{f"{kind}, kink": lambda kind=kind: at_a_kink(kind) for kind in KINDS},
    "separable": lambda: solve_convex(
        Linear([0.3, -1.0, 0.5]) + Separable("entropy", [1.0, 2.0, 0.5]), A=np.ones((1, 3)), b=[1.0], ub=0.6
    ),
    "flat": flat,
    "end of a domain": lambda: solve_convex(
        Linear([1.0, 2.0])
        + Separable("entropy", np.ones(2), [[1.0, 1.0], [1.0, -1.0]])
        + Separable("square", 0.1)
    ),
}


def gradients(solution: ConvexSolution, bars: list[Array]) -> dict[Any, Array]:
    """Of every field and every number of the objective."""
    found = solution.vjp(*bars)
    fields: dict[Any, Any] = {name: getattr(found, name) for name in CONSTRAINTS}
    fields |= {(i, name): value for i, term in enumerate(found.objective) for name, value in term.items()}
    return {name: np.asarray(value) for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_derivatives_are_linear_and_adjoint_to_each_other(name: str) -> None:
    solution = PROGRAMS[name]()
    assert solution.status is Status.SOLVED
    rng = np.random.default_rng(7)
    parts = (solution.x, solution.y, solution.z, solution.z_box)
    a, b = ([rng.normal(size=part.shape) for part in parts] for _ in range(2))
    of_a, of_b = gradients(solution, a), gradients(solution, b)
    both = gradients(solution, [2.0 * u - 3.0 * v for u, v in zip(a, b, strict=True)])
    size = max(np.abs(v).max(initial=0.0) for v in of_a.values())
    for key, value in both.items():
        np.testing.assert_allclose(value, 2.0 * of_a[key] - 3.0 * of_b[key], rtol=0, atol=1e-10 * (1 + size))
    dots = {key: rng.normal(size=value.shape) for key, value in of_a.items()}
    terms: list[dict[str, Any]] = [{} for _ in solution.vjp(*a).objective]
    for key, dot in dots.items():
        if isinstance(key, tuple):
            terms[key[0]][key[1]] = dot
    moved = solution.jvp(terms, **{key: dot for key, dot in dots.items() if isinstance(key, str)})
    forward = sum(float(u @ v) for u, v in zip(a, (moved.x, moved.y, moved.z, moved.z_box), strict=True))
    reverse = sum(float(np.sum(dots[key] * of_a[key])) for key in of_a)
    sizes = [np.abs(dots[key] * of_a[key]).max(initial=0.0) for key in of_a]
    assert abs(forward - reverse) <= 1e-10 * max(1.0, *sizes)
