"""The engine that answers for everything that is not dense and strictly convex."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status
from helpers.problems import known_problem


def as_sparse(data: dict[str, Any]) -> dict[str, Any]:
    """The same problem with sparse matrices."""
    return {name: sp.csc_matrix(v) if name in ("P", "G", "A") else v for name, v in data.items()}


def linear_program(seed: int, n: int, m: int) -> tuple[dict[str, Any], Any]:
    """A bounded LP with a vertex for its solution: q is a positive sum of active rows."""
    rng = np.random.default_rng(seed)
    G, x = rng.normal(size=(m, n)), rng.normal(size=n)
    h = G @ x + np.where(np.arange(m) < n, 0.0, rng.uniform(0.5, 1, size=m))
    return {"P": np.zeros((n, n)), "q": -G[:n].T @ rng.uniform(1, 2, size=n), "G": G, "h": h}, x


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_other_engines_where_they_serve(seed: int, sparse: bool) -> None:
    known = known_problem(seed=seed, n=12, m=10, p=3)
    data = as_sparse(known.data) if sparse else known.data
    solution = altdiff.solve_qp(**data, method="interior_point")
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, known.x, atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_solves_linear_programs_to_their_vertex(seed: int, sparse: bool) -> None:
    data, x = linear_program(seed, n=15, m=40)
    solution = altdiff.solve_qp(**(as_sparse(data) if sparse else data))
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, x, atol=1e-9)
    assert solution.iterations < 50


@pytest.mark.parametrize("sparse", [False, True])
def test_without_the_finish_the_answer_is_the_engine_s_own(sparse: bool) -> None:
    known = known_problem(seed=3, n=12, m=10, p=3)
    data = as_sparse(known.data) if sparse else known.data
    x_bar = np.random.default_rng(0).normal(size=12)
    finished = altdiff.solve_qp(**data, method="interior_point")
    for tolerance in (1e-6, 1e-10):
        raw = altdiff.solve_qp(**data, method="interior_point", finish=False, tolerance=tolerance)
        assert raw.status is Status.SOLVED
        residual = max(raw.primal_residual, raw.dual_residual, raw.duality_gap)
        assert residual <= tolerance
        assert not np.array_equal(raw.x, finished.x)
        np.testing.assert_allclose(raw.x, finished.x, atol=1e-5)
        # The active set is the same, and so is the linear system of the derivative.
        np.testing.assert_allclose(raw.vjp(x_bar).q, finished.vjp(x_bar).q, rtol=1e-6, atol=1e-8)


def test_fills_in_as_dense_as_it_may() -> None:
    rng = np.random.default_rng(0)
    n = 300
    pattern: Any = sp.random(n, n, density=0.03, random_state=1)
    P = (pattern @ pattern.T + 0.01 * sp.eye(n)).tocsc()
    A: Any = sp.random(60, n, density=0.05, random_state=2, format="csc")
    x = rng.normal(size=n)
    solution = altdiff.solve_qp(P, rng.normal(size=n), None, None, A, A @ x, x - 1, x + 1)
    assert solution.status is Status.SOLVED
    assert max(solution.primal_residual, solution.dual_residual, solution.duality_gap) < 1e-12


def test_variables_that_are_fixed_are_equalities() -> None:
    solution = altdiff.solve_qp(
        np.zeros((3, 3)), [1.0, -1.0, 2.0], lb=[0.0, 0.5, 0.0], ub=[1.0, 0.5, 1.0], method="interior_point"
    )
    np.testing.assert_allclose(solution.x, [0.0, 0.5, 0.0], atol=1e-10)
    np.testing.assert_allclose(solution.z_box, [-1.0, 1.0, -2.0], atol=1e-9)


def test_a_contradiction_comes_with_a_farkas_vector() -> None:
    G, h = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, 0.0]]), np.array([1.0, -3.0, 5.0])
    solution = altdiff.solve_qp(np.zeros((2, 2)), np.ones(2), sp.csc_matrix(G), h, method="interior_point")
    assert solution.status is Status.PRIMAL_INFEASIBLE
    z = solution.z
    assert (z >= 0).all()
    assert np.abs(G.T @ z).max() <= 1e-9 * -(h @ z)
    assert h @ z < 0


def test_an_objective_without_bound_comes_with_a_ray() -> None:
    P, q = np.diag([1.0, 0.0]), np.array([0.0, -1.0])
    solution = altdiff.solve_qp(sp.csc_matrix(P), q, np.array([[1.0, -1.0]]), [0.0])
    assert solution.status is Status.DUAL_INFEASIBLE
    d = solution.x
    assert q @ d < 0
    assert np.abs(P @ d).max() <= 1e-9 * -(q @ d)


def test_prints_a_table_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    data, _ = linear_program(0, n=5, m=12)
    solution = altdiff.solve_qp(**data, method="interior_point", verbose=True)
    head, columns, *iterations, end = capsys.readouterr().out.splitlines()
    assert "5 variables, 12 inequalities, 0 equalities" in head
    assert columns.split()[:5] == ["iter", "objective", "primal", "dual", "gap"]
    assert int(iterations[-1].split()[0]) == solution.iterations
    assert end.startswith("SOLVED after")


ENDLESS = """
import signal, altdiff, numpy as np, scipy.sparse as sp
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit that it is ignored
n = 1500
rng = np.random.default_rng(0)
M = sp.random(n, n, density=0.2, random_state=0)
print("begun", flush=True)
try:
    for _ in range(1000):
        q = rng.normal(size=n)
        altdiff.solve_qp((M @ M.T).tocsc(), q, M.tocsc(), np.ones(n), method="interior_point")
except KeyboardInterrupt:
    print("interrupted", round(altdiff.solve_qp([[2.0]], [-2.0]).x[0], 9), flush=True)
"""


def test_an_interrupt_ends_a_solve_and_leaves_python_usable() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(1)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert out == "interrupted 1.0\n"


def test_a_time_limit_holds() -> None:
    n = 1200
    M: Any = sp.random(n, n, density=0.2, random_state=0)
    begin = time.perf_counter()
    solution = altdiff.solve_qp(
        (M @ M.T).tocsc(), np.ones(n), M.tocsc(), np.ones(n), method="interior_point", time_limit=1e-3
    )
    assert solution.status is Status.TIME_LIMIT
    assert time.perf_counter() - begin < 30


@pytest.mark.parametrize("sparse", [False, True])
def test_correlations_written_down_to_five_digits_are_solved(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(40, 6))
    covariance = factors @ factors.T
    scale = np.sqrt(np.diag(covariance))
    P = np.round(covariance / np.outer(scale, scale), 5)
    assert np.linalg.eigvalsh(P)[0] < -1e-6
    data = {"P": P, "q": rng.normal(size=40), "A": np.ones((1, 40)), "b": np.ones(1), "lb": 0.0, "ub": 1.0}
    solution = altdiff.solve_qp(**(as_sparse(data) if sparse else data))
    assert solution.status is Status.SOLVED
    assert max(solution.primal_residual, solution.dual_residual, solution.duality_gap) < 1e-10


@pytest.mark.parametrize("sparse", [False, True])
def test_a_slightly_indefinite_hessian_without_a_minimum_is_nonconvex(sparse: bool) -> None:
    data = {"P": np.array([[1.0, 4e-3], [4e-3, 0.0]]), "q": np.zeros(2)}  # an eigenvalue of -1.6e-5
    solution = altdiff.solve_qp(**(as_sparse(data) if sparse else data), method="interior_point")
    assert solution.status is Status.NONCONVEX
