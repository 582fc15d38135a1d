"""Data whose scale or condition is far from one."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse
from altdiff import Status

KINDS: list[Any] = [np.asarray, scipy.sparse.csc_matrix]
EYE = np.eye(2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
def test_a_large_right_hand_side_is_not_mistaken_for_infeasibility(kind: Any, size: float) -> None:
    solution = altdiff.solve_qp(kind(EYE), [0.0, 0.0], A=kind([[1.0, 1.0]]), b=[size])
    assert solution.status == Status.SOLVED
    np.testing.assert_allclose(solution.x, [size / 2, size / 2], rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
def test_a_large_linear_term_is_not_mistaken_for_an_unbounded_problem(kind: Any, size: float) -> None:
    solution = altdiff.solve_qp(kind(EYE), [-size, -2 * size])
    assert solution.status == Status.SOLVED
    np.testing.assert_allclose(solution.x, [size, 2 * size], rtol=1e-9)
    np.testing.assert_allclose(solution.vjp([1.0, 0.0]).q, [-1.0, 0.0], atol=1e-9)
    assert solution.unique


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e7, 1e8, 1e9])
def test_a_small_variable_beside_a_large_multiplier_is_exact(kind: Any, size: float) -> None:
    solution = altdiff.solve_qp(kind(EYE), [-1.0, -size], ub=[np.inf, 1.0])
    assert solution.status == Status.SOLVED
    np.testing.assert_allclose(solution.x, [1.0, 1.0], rtol=1e-9)
    np.testing.assert_allclose(solution.vjp([1.0, 0.0]).q, [-1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1e15, 1e20, 1e150, 1.7e308])
def test_a_limit_that_never_binds_is_harmless(kind: Any, limit: float) -> None:
    solution = altdiff.solve_qp(kind(EYE), [-1.0, -2.0], kind(EYE), [limit, 0.5])
    assert solution.status == Status.SOLVED
    np.testing.assert_allclose(solution.x, [1.0, 0.5], atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", [1e4, 1e6, 1e8])
def test_an_ill_conditioned_hessian_is_solved_to_its_condition(kind: Any, condition: float) -> None:
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    P = Q @ np.diag(np.geomspace(1.0, 1.0 / condition, 6)) @ Q.T
    P = (P + P.T) / 2
    x = rng.normal(size=6)
    solution = altdiff.solve_qp(kind(P), -P @ x)
    assert solution.status == Status.SOLVED
    assert solution.unique
    np.testing.assert_allclose(solution.x, x, atol=1e-14 * condition)
    expected = -np.linalg.solve(P, np.ones(6))
    np.testing.assert_allclose(solution.vjp(np.ones(6)).q, expected, rtol=1e-13 * condition)


def test_rounding_to_single_precision_does_not_make_a_low_rank_hessian_nonconvex() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(8, 3)).astype(np.float32)
        q = rng.normal(size=8).astype(np.float32)
        assert altdiff.solve_qp(W @ W.T, q, lb=-1.0, ub=1.0).status == Status.SOLVED


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-10, 1.0, 1e10])
def test_an_indefinite_hessian_is_refused_at_any_scale(kind: Any, size: float) -> None:
    P = size * np.array([[0.0, 1.0], [1.0, 0.0]])
    assert altdiff.solve_qp(kind(P), [0.0, 0.0], lb=-1.0, ub=1.0).status == Status.NONCONVEX


def test_algorithm_1_says_why_it_cannot_begin() -> None:
    with pytest.raises(ValueError, match="not positive definite"):
        altdiff.alternating_differentiation(-EYE, np.ones(2), None, None, [[1.0, 1.0]], [1.0])
