"""Rows that touch without a push, and costs that are rounding: what counts must not be luck."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Linear, Separable, solve_convex

Data = dict[str, Any]
INF = np.inf


def at_the_origin(n: int, seed: int) -> Data:
    """x = 0 on two rows that push, two that say the same and do not, and bounds of which one is weak."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    G = rng.integers(-2, 3, size=(4, n)).astype(float)
    G[3] = G[2]
    A = rng.normal(size=(1, n))
    lb, ub = -rng.uniform(0.5, 2.0, size=n), rng.uniform(0.5, 2.0, size=n)
    z_box = np.zeros(n)
    z_box[:5] = -rng.uniform(0.1, 1.0, size=5)
    lb[:6] = 0.0  # the sixth without a push
    q = -(A.T @ [0.1] + G[:2].T @ rng.uniform(0.1, 1.0, size=2) + z_box)
    return {"P": root @ root.T / n + 0.3 * np.eye(n), "q": q, "G": G, "h": np.zeros(4),
            "A": A, "b": np.zeros(1), "lb": lb, "ub": ub}  # fmt: skip


def permuted(data: Data, order: Any) -> Data:
    """The variables in another order, sparse."""
    columns = {name: sp.csc_array(data[name][:, order]) for name in "GA"}
    vectors = {name: data[name][order] for name in ("q", "lb", "ub")}
    return data | columns | vectors | {"P": sp.csc_array(data["P"][np.ix_(order, order)])}


def by_scores(solution: Any, x_bar: Any) -> Any:
    """The gradient of q of the first term."""
    return solution.vjp(x_bar).objective[0]["q"]


@pytest.mark.parametrize("n", [20, 60, 130, 140])
def test_weak_rows_at_the_origin_count_in_every_order_of_the_variables(n: int) -> None:
    for seed in range(4):
        data = at_the_origin(n, seed)
        x_bar = np.random.default_rng(100 + seed).normal(size=n)
        expected = altdiff.solve_qp(**data).vjp(x_bar).q
        for trial in range(6):
            order = np.random.default_rng(trial).permutation(n)
            found = altdiff.solve_qp(**permuted(data, order)).vjp(x_bar[order]).q
            np.testing.assert_allclose(found, expected[order], atol=1e-8 * abs(expected).max())


@pytest.mark.parametrize("n", [24, 25, 60, 100, 127, 129])
def test_without_costs_the_least_x_does_not_depend_on_the_unit_of_the_objective(n: int) -> None:
    rng = np.random.default_rng(n)
    W = rng.normal(size=(n, n // 2))
    flat = np.linalg.svd(W.T)[2][n // 2 :].T  # P x = 0
    inside = flat @ rng.normal(size=flat.shape[1])
    A = np.ones((1, n))
    fields: Data = {"A": A, "b": A @ inside, "lb": inside - 0.5, "ub": inside + 1.0}
    points = [altdiff.solve_qp(c * W @ W.T, np.zeros(n), **fields) for c in (1.0, 1e-4, 1e4)]
    sparse: Data = {**fields, "A": sp.csc_array(A)}
    points.append(altdiff.solve_qp(sp.csc_array(W @ W.T), np.zeros(n), **sparse))
    # Least among x = flat t: by a program in t that is strictly convex.
    G = np.vstack([flat, -flat])
    h = np.concatenate([fields["ub"], -fields["lb"]])
    t = altdiff.solve_qp(np.eye(flat.shape[1]), np.zeros(flat.shape[1]), G, h, A @ flat, fields["b"]).x
    for point in points:
        assert not point.unique
        np.testing.assert_allclose(point.x, flat @ t, atol=1e-7)


def test_rounding_of_a_row_does_not_make_a_free_variable_unique() -> None:
    """x_1 has no cost and no end above; ub of x_2 touches, and has rounding in that direction."""
    P = np.array(
        [[24.0, 0, 9, 10, -1], [0, 0, 0, 0, 0], [9, 0, 5, 7, -2], [10, 0, 7, 11, -3], [-1, 0, -2, -3, 5]]
    )
    q = np.array([76.0, 0, 35, 45, -11])
    bounds: Data = {"lb": np.array([-6.0, 0, -INF, -6, -INF]), "ub": np.array([INF, INF, 3.0, INF, INF])}
    for solution in (altdiff.solve_qp(P, q, **bounds), altdiff.solve_qp(sp.csc_array(P), q, **bounds)):
        assert solution.status == altdiff.Status.SOLVED
        assert not solution.unique
        np.testing.assert_allclose(solution.x, [-3, 0, 3, -3, 1], atol=1e-10)


@pytest.mark.parametrize("temperature", [0.1, 0.01, 0.001])
def test_a_bound_at_the_end_of_an_entropys_domain_changes_nothing(temperature: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        n = int(rng.integers(2, 6))
        scores, x_bar = rng.normal(size=n), rng.normal(size=n)
        simplex: Data = {"A": np.ones((1, n)), "b": [1.0]}
        objective = Linear(scores) + Separable("entropy", temperature)
        free = solve_convex(objective, **simplex)
        bounded = solve_convex(objective, lb=0.0, **simplex)
        boxed = solve_convex(objective, lb=0.0, ub=np.full(n, 2.0), **simplex)
        expected = by_scores(free, x_bar)
        for solution in (bounded, boxed):
            assert solution.unique
            np.testing.assert_allclose(solution.x, free.x, rtol=1e-9)
            np.testing.assert_allclose(by_scores(solution, x_bar), expected, atol=1e-8 / temperature)
            np.testing.assert_allclose(solution.jacobian("b"), free.jacobian("b"), atol=1e-8)


def test_bounds_at_both_ends_of_a_binary_entropy_change_nothing() -> None:
    objective = Linear([2.15, 0.5, -3.0]) + Separable("binary entropy", [0.01, 1.0, 0.02])
    free, boxed = solve_convex(objective), solve_convex(objective, lb=0.0, ub=1.0)
    x_bar = np.array([1.0, -2.0, 0.5])
    assert boxed.unique
    np.testing.assert_allclose(by_scores(boxed, x_bar), by_scores(free, x_bar), atol=1e-10)


def test_an_entry_that_is_denormal_has_derivatives_in_both_directions() -> None:
    solution = solve_convex(Linear([7.3, 0.0, 0.01]) + Separable("entropy", 0.01), A=np.ones((1, 3)), b=[1.0])
    assert 0 <= solution.x[0] < 1e-300
    gradient = by_scores(solution, [0.0, 1.0, 0.0])
    np.testing.assert_allclose(solution.jvp([{"q": [0.0, 1.0, 0.0]}, {}]).x, gradient, atol=1e-9)
    np.testing.assert_allclose(solution.jvp(b=[1.0]).x, solution.jacobian("b")[:, 0], atol=1e-9)


@pytest.mark.parametrize("weight", [1e-6, 1e-4, 1e-2])
def test_a_small_weight_does_not_let_x_leave_the_end_of_its_domain(weight: float) -> None:
    solution = solve_convex(Linear([0.5]) + Separable("binary entropy", weight) + Separable("exp", 0.01))
    assert abs(by_scores(solution, [1.0])[0]) <= 1e-7
