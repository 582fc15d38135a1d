"""Numbers of unlike sizes: limits far away, rows that contradict each other by little, ends of the range."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status

INF = np.inf
KINDS = [np.asarray, sp.csc_matrix]


def solve(kind: Any, **data: Any) -> Any:
    """With matrices of a kind, one thread."""
    matrices = {name: kind(np.asarray(data[name], dtype=float)) for name in "PGA" if name in data}
    vectors: dict[str, Any] = {
        name: np.asarray(value, dtype=float) for name, value in data.items() if name not in "PGA"
    }
    return altdiff.solve_qp(**matrices, **vectors, num_threads=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [1e8, 1.5e10, 3e12])
def test_a_linear_objective_is_stopped_by_bounds_however_far(kind: Any, far: float) -> None:
    solution = solve(kind, P=[[0.0]], q=[6.0], lb=[-far], ub=[far])
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, [-far], rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1e8, 1e12, 1e20])
def test_a_limit_that_never_binds_changes_nothing_however_large(kind: Any, limit: float) -> None:
    rows: dict[str, Any] = {"A": [[-3.0, 1.0]], "b": [3.0], "lb": [-INF, 0.0]}
    near = solve(kind, P=np.zeros((2, 2)), q=[9.0, -3.0], **rows)
    solution = solve(kind, P=np.zeros((2, 2)), q=[9.0, -3.0], G=[[-3.0, -2.0]], h=[limit], **rows)
    assert near.status is solution.status is Status.SOLVED
    assert abs(solution.objective - near.objective) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_x_may_lie_far_out_where_p_is_flat(kind: Any) -> None:
    solution = solve(kind, P=[[1.0, 2.0], [2.0, 4.0]], q=[0.0, 6.0], lb=[-5e11, -INF], ub=[5e11, 2e10])
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, [5e11, -2.5e11 - 1.5], rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_not_met_because_another_number_is_large(kind: Any) -> None:
    # 0 x <= -3 has no solution; |x| of 1e10 would make 3 a small violation.
    far: dict[str, Any] = {"lb": [-2e10, -3e10], "ub": [1.0, 4e11]}
    solution = solve(kind, P=[[4.0, -2.0], [-2.0, 1.0]], q=[-4.0, -4.0], G=np.zeros((1, 2)), h=[-3.0], **far)
    assert solution.status is Status.PRIMAL_INFEASIBLE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1.0, -2.0, 3.0])
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-7, 6e-8, 3e-8, 1e-8, 1e-9, 0.0])
def test_equalities_that_contradict_each_other_get_an_answer(kind: Any, factor: float, gap: float) -> None:
    row, x = np.array([1.0, 2.0, -1.0]), np.array([1.0, 0.0, -1.0])
    A, value = np.stack([row, factor * row]), row @ x
    solution = solve(kind, P=np.eye(3), q=[1.0, 2.0, 3.0], A=A, b=[value, factor * (value + gap)])
    allowed = {Status.SOLVED} if gap <= 1e-8 else {Status.SOLVED, Status.PRIMAL_INFEASIBLE}
    assert solution.status in ({Status.PRIMAL_INFEASIBLE} if gap >= 1e-6 else allowed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_ray_is_one_whatever_the_units_of_the_objective(kind: Any, size: float) -> None:
    P, q = 11.5 * np.array([[1.0, 2.0], [2.0, 4.0]]), size * np.ones(2)
    solution = solve(kind, P=P, q=q, ub=[4.56, INF])
    assert solution.status is Status.DUAL_INFEASIBLE
    assert abs(P @ solution.x).max() <= 1e-12 * abs(P).max() * abs(solution.x).max()
    assert q @ solution.x < 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_small_multiple_of_the_identity_bounds_an_objective(kind: Any, size: float) -> None:
    rng = np.random.default_rng(0)
    J, q = rng.normal(size=(8, 3)), size * rng.normal(size=8)
    solution = solve(kind, P=J @ J.T + 1e-9 * np.eye(8), q=q)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, np.linalg.solve(J @ J.T + 1e-9 * np.eye(8), -q), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_rounding_leaves_of_a_ray_is_no_descent(kind: Any) -> None:
    # x_0 may fall for ever, at no gain; q acts only on what the equalities fix.
    data: dict[str, Any] = {
        "P": np.zeros((5, 5)), "q": [0.0, -3.0, 0.0, -5.0, 0.0],
        "G": [[2.0, 0.0, 0.0, 2.0, 0.0]], "h": [1e18],
        "A": [[0, 0, 0, -1.0, 0], [0, 0, 0, 0, -1.0], [0, -1.0, 0, -1.0, 0]], "b": [4.0, -1.0, 8.0],
        "lb": [-INF, -5.0, -1.0, -6.0, -INF], "ub": [2.0, INF, 0.0, INF, INF],
    }  # fmt: skip
    assert solve(kind, **data).status is Status.SOLVED


@pytest.mark.parametrize("kind", KINDS)
def test_an_infeasible_program_is_called_so_even_if_its_objective_falls_along_a_ray(kind: Any) -> None:
    data: dict[str, Any] = {
        "P": np.zeros((2, 2)),
        "q": [0.0, -1.0],
        "G": [[1.0, 0.0], [-1.0, 0.0]],
        "h": [-1.0, -1.0],
    }
    assert solve(kind, **data).status is Status.PRIMAL_INFEASIBLE


@pytest.mark.parametrize("kind", KINDS)
def test_denormal_numbers_do_not_end_the_process(kind: Any) -> None:
    G = [[-1.0, 0.0], [-2.999999995e-315, 1.999999997e-315]]
    rows: dict[str, Any] = {"G": G, "h": [0.0, 0.0], "A": [[-3e-306, -1.0]], "b": [-3.0], "ub": [INF, 0.0]}
    solution = solve(kind, P=np.diag([0.0, 4e-304]), q=[3.7e-304, 1e-305], **rows)
    assert solution.status is Status.PRIMAL_INFEASIBLE
    unbounded = solve(kind, P=np.zeros((2, 2)), q=[-5e-305, 4e-305], lb=[-INF, 0.0])
    assert unbounded.status is Status.DUAL_INFEASIBLE


@pytest.mark.parametrize("kind", KINDS)
def test_a_proof_by_denormal_rows_keeps_its_digits(kind: Any) -> None:
    solution = solve(kind, P=[[1.0]], q=[0.0], G=[[-3e-305]], h=[-5.0], ub=[2.0])
    assert solution.status is Status.PRIMAL_INFEASIBLE
    z, z_box = np.longdouble(solution.z[0]), np.longdouble(solution.z_box[0])
    assert abs(z * np.longdouble(-3e-305) + z_box) <= 1e-9 * abs(z_box)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_curvature_that_is_rounding_is_solved_or_named(kind: Any) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        J = rng.normal(size=(10, 3)).astype(np.float32)
        P, lb = (J @ J.T).astype(kind), rng.uniform(size=10).astype(kind)
        solution = altdiff.solve_qp(P, np.zeros(10, kind), lb=lb)
        assert solution.status in (Status.SOLVED, Status.NONCONVEX)
        # A box is where it does no harm: there is a minimum.
        assert altdiff.solve_qp(P, np.zeros(10, kind), lb=lb, ub=lb + 1).status is Status.SOLVED
