"""Derivatives are linear maps, and where x is not unique they are those of the x that is returned."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status

Data = dict[str, Any]
FIELDS = ("P", "q", "G", "h", "A", "b", "lb", "ub")
PARTS = ("x", "y", "z", "z_box")
SEEDS = range(12)


def face(rng: np.random.Generator, rank: int) -> Data:
    """Some rows are active at x_0, and some of these have multipliers: most have a face of solutions."""
    n, m, p = int(rng.integers(3, 8)), int(rng.integers(1, 8)), int(rng.integers(1, 3))
    J, G, A, x = (rng.standard_normal(shape) for shape in ((n, rank), (m, n), (p, n), (n,)))
    active = rng.random(m) < 0.4
    z = np.where(active & (rng.random(m) < 0.7), rng.random(m), 0.0)
    lb = x - np.where(rng.random(n) < 0.3, 0.0, 2 * rng.random(n))
    z_box = np.where((lb == x) & (rng.random(n) < 0.5), -rng.random(n), 0.0)
    P, y = J @ J.T, rng.standard_normal(p)
    return {
        "P": P,
        "q": -(P @ x + G.T @ z + A.T @ y + z_box),
        "G": G,
        "h": G @ x + np.where(active, 0.0, rng.random(m)),
        "A": A,
        "b": A @ x,
        "lb": lb,
        "ub": x + 3.0,
    }


def full_pattern(matrix: Any) -> Any:
    rows, columns = np.indices(matrix.shape)
    return sp.csc_matrix((matrix.ravel(), (rows.ravel(), columns.ravel())), shape=matrix.shape)


def as_kind(data: Data, kind: str) -> Data:
    if kind == "dense":
        return data
    return {name: full_pattern(value) if name in "PGA" else value for name, value in data.items()}


def tangent(rng: np.random.Generator, data: Data, names: tuple[str, ...] = FIELDS) -> Data:
    changes = {name: rng.standard_normal(np.shape(data[name])) for name in names}
    if "P" in changes:
        changes["P"] = changes["P"] + changes["P"].T
    return changes


def dense(part: Any) -> Any:
    return part.toarray() if hasattr(part, "toarray") else part


def gradient(solution: altdiff.Solution, bars: Data) -> Data:
    parts = solution.vjp(bars["x"], bars["y"], bars["z"], bars["z_box"])._asdict()
    return {name: dense(part) for name, part in parts.items()}


def inner(a: Data, b: Data) -> float:
    return float(sum(np.vdot(a[name], b[name]) for name in b))


def cotangent(rng: np.random.Generator, solution: altdiff.Solution) -> Data:
    return {name: rng.standard_normal(getattr(solution, name).shape) for name in PARTS}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_vjp_is_linear_and_the_adjoint_of_jvp(kind: str, rank: int, seed: int) -> None:
    rng = np.random.default_rng([seed, rank])
    data = face(rng, rank)
    solution = altdiff.solve_qp(**as_kind(data, kind))
    assert solution.status is Status.SOLVED
    a, b = cotangent(rng, solution), cotangent(rng, solution)
    change = tangent(rng, data)
    of_a, of_b = gradient(solution, a), gradient(solution, b)
    both = gradient(solution, {name: 2.0 * a[name] - b[name] for name in PARTS})
    size = np.sqrt(inner(of_a, of_a) * inner(change, change))
    moved = solution.jvp(**as_kind(change, kind))
    assert (
        abs(inner(of_a, change) - sum(np.vdot(a[name], getattr(moved, name)) for name in PARTS))
        < 1e-10 * size
    )
    for name in FIELDS:
        np.testing.assert_allclose(both[name], 2.0 * of_a[name] - of_b[name], rtol=0, atol=1e-10 * (1 + size))


def least(data: Data, solution: altdiff.Solution) -> np.ndarray:
    """The least x with these multipliers, by a strictly convex program of its own."""
    held = solution.z > 1e-9
    rows = np.vstack([data["P"], data["A"], data["G"][held]])
    limits = np.concatenate([data["P"] @ solution.x, data["b"], data["h"][held]])
    U, sizes, V = np.linalg.svd(rows)
    rank = int((sizes > 1e-9).sum())
    lb, ub = data["lb"].copy(), data["ub"].copy()
    ub[solution.z_box < -1e-9] = lb[solution.z_box < -1e-9]
    lb[solution.z_box > 1e-9] = ub[solution.z_box > 1e-9]
    n = len(solution.x)
    other = altdiff.solve_qp(
        np.eye(n),
        np.zeros(n),
        data["G"][~held],
        data["h"][~held],
        V[:rank],
        (U.T @ limits)[:rank] / sizes[:rank],
        lb,
        ub,
    )
    assert other.status is Status.SOLVED
    return other.x


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_of_many_solutions_the_least_is_returned(kind: str, rank: int, seed: int) -> None:
    data = face(np.random.default_rng([seed, rank]), rank)
    solution = altdiff.solve_qp(**as_kind(data, kind))
    np.testing.assert_allclose(solution.x, least(data, solution), rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("seed", SEEDS)
def test_jvp_is_the_slope_of_the_x_that_is_returned(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    data = face(rng, int(rng.integers(0, 3)))
    change = tangent(rng, data, ("h", "b", "lb", "ub"))
    step = 1e-5
    after, before = (
        altdiff.solve_qp(**as_kind({**data, **{n: data[n] + sign * step * change[n] for n in change}}, kind))
        for sign in (1.0, -1.0)
    )
    solution = altdiff.solve_qp(**as_kind(data, kind))
    if not solution.status is after.status is before.status is Status.SOLVED:
        return  # the face may end here
    right, left = (after.x - solution.x) / step, (solution.x - before.x) / step
    if np.abs(right - left).max() > 1e-3 * (1 + np.abs(right).max()):
        return  # a kink
    slope = (after.x - before.x) / (2 * step)
    np.testing.assert_allclose(solution.jvp(**change).x, slope, rtol=0, atol=2e-5 * (1 + np.abs(slope).max()))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_least_solution_of_equalities_turns_with_their_matrix(kind: str) -> None:
    # P = q = 0: x is A^+ b, whose derivative in A is known.
    rng = np.random.default_rng(3)
    A, b, dA = rng.standard_normal((2, 5)), rng.standard_normal(2), rng.standard_normal((2, 5))
    data = as_kind({"P": np.zeros((5, 5)), "q": np.zeros(5), "A": A, "b": b}, kind)
    data = {name: value if name in "PA" else np.asarray(value) for name, value in data.items()}
    solution = altdiff.solve_qp(**data)
    assert not solution.unique
    np.testing.assert_allclose(solution.x, np.linalg.pinv(A) @ b, atol=1e-12)
    step = 1e-6
    slope = (np.linalg.pinv(A + step * dA) - np.linalg.pinv(A - step * dA)) @ b / (2 * step)
    moved = solution.jvp(A=full_pattern(dA) if kind == "sparse" else dA)
    np.testing.assert_allclose(moved.x, slope, atol=1e-8)
    bar = rng.standard_normal(5)
    assert abs(np.vdot(dense(solution.vjp(bar).A), dA) - bar @ slope) < 1e-8


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("curvature", [1e-4, 1e-8, 1e-12, 1e-16, 1e-20])
@pytest.mark.parametrize("by", ["bound", "row"])
def test_nothing_leaks_through_a_strictly_active_constraint_however_small_p_is(
    kind: str, curvature: float, by: str
) -> None:
    limits: Data = {"lb": [0.0]} if by == "bound" else {"G": np.array([[-0.5], [-1.0]]), "h": [0.2, 0.0]}
    P: Any = np.array([[curvature]])
    if kind == "sparse":
        P = sp.csc_matrix(P)
        limits = {name: sp.csc_matrix(v) if name == "G" else v for name, v in limits.items()}
    solution = altdiff.solve_qp(P, [1.0], **limits)
    assert solution.status is Status.SOLVED
    assert solution.x == pytest.approx(0.0, abs=1e-8)
    assert not solution.degenerate
    assert abs(solution.vjp(np.ones(1)).q[0]) < 1e-9
    assert abs(solution.jvp(q=np.ones(1)).x[0]) < 1e-9


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e-12, 1e-30])
def test_a_linear_objective_is_minimised_however_small_it_is(size: float) -> None:
    solution = altdiff.solve_qp(np.zeros((2, 2)), [size, -size], lb=-1.0, ub=1.0)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, [-1.0, 1.0], atol=1e-12)


def test_dense_and_sparse_gradients_of_a_lifted_program_agree() -> None:
    # States and inputs of a double integrator, with a cost on the last state alone: P is singular.
    steps, rng = 12, np.random.default_rng(7)
    step, push = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.005], [0.1]])
    A = np.zeros((2 * steps, 3 * steps))
    for k in range(steps):
        A[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = np.eye(2)
        A[2 * k : 2 * k + 2, 2 * steps + k : 2 * steps + k + 1] = -push
        if k:
            A[2 * k : 2 * k + 2, 2 * k - 2 : 2 * k] = -step
    P = np.zeros((3 * steps, 3 * steps))
    P[2 * steps - 2, 2 * steps - 2] = 1.0
    b = np.zeros(2 * steps)
    b[:2] = step @ [1.0, 0.0]
    data: Data = {
        "P": P,
        "q": np.zeros(3 * steps),
        "A": A,
        "b": b,
        "lb": np.full(3 * steps, -1.0),
        "ub": np.full(3 * steps, 1.0),
    }
    bar = rng.standard_normal(3 * steps)
    lifted: Data = {n: sp.csc_matrix(v) if n in "PA" else v for n, v in data.items()}
    by_dense, by_sparse = altdiff.solve_qp(**data).vjp(bar), altdiff.solve_qp(**lifted).vjp(bar)
    for name in ("q", "b", "lb", "ub"):
        expected = getattr(by_sparse, name)
        np.testing.assert_allclose(
            getattr(by_dense, name), expected, rtol=0, atol=1e-9 * (1 + np.abs(expected).max())
        )
