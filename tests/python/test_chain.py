"""The chain benchmark: its problems, its reference, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import altdiff
import numpy as np
import pytest

from benchmarks.chain.__main__ import main
from benchmarks.chain.growth import Growth, exponents
from benchmarks.chain.problems import INPUTS, STAGE, STATES, Chain, chain_of, worst_residual
from benchmarks.chain.reference import solve_reference
from benchmarks.hostile.checks import residuals_of
from benchmarks.hostile.problems import Point
from benchmarks.sets.solvers import whole

SHORT = Chain(stages=30, disturbance=0.5)


def test_a_chain_couples_neighbours_only_and_stores_no_zeros() -> None:
    qp = SHORT.program()
    A = whole(qp).A
    assert qp.sizes == {"n": 30 * STAGE, "m": 0, "p": 30 * STATES}
    assert (A.data != 0.0).all()
    assert A.nnz == STATES * (30 * (1 + INPUTS) + 29 * STATES)
    rows, columns = A.nonzero()
    assert set((rows // STATES - columns // STAGE).tolist()) == {0, 1}


def test_the_first_rows_of_a_stage_are_its_dynamics() -> None:
    A = whole(SHORT.program()).A.toarray()
    own, before = A[STATES : 2 * STATES, STAGE : 2 * STAGE], A[STATES : 2 * STATES, :STAGE]
    np.testing.assert_array_equal(own[:, :STATES], np.eye(STATES))
    np.testing.assert_array_equal(before[:, STATES:], 0.0)
    np.testing.assert_array_equal(A[5 * STATES : 6 * STATES, 5 * STAGE : 6 * STAGE], own)


def test_a_chain_is_named_by_its_number_of_variables() -> None:
    assert chain_of(1200, 0.1).n == 1200
    assert chain_of(1, 0.1).n == STAGE


@pytest.mark.parametrize("chain", [SHORT, Chain(stages=7), Chain(stages=100, disturbance=0.3)])
def test_the_reference_agrees_with_the_library(chain: Chain) -> None:
    exact = solve_reference(chain)
    solution = altdiff.solve_qp(**chain.program().fields())
    np.testing.assert_allclose(solution.x, exact.x, rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.vjp(chain.cotangent()).q, exact.q, rtol=0, atol=1e-8)


def test_the_gradient_of_the_reference_is_a_difference_quotient() -> None:
    """Of the solution along q, by the library: the active set is the same on both sides."""
    qp, step = SHORT.program().fields(), 1e-6
    direction = np.random.default_rng(0).normal(size=SHORT.n)
    ahead, behind = (altdiff.solve_qp(**{**qp, "q": qp["q"] + s * direction}).x for s in (step, -step))
    slope = SHORT.cotangent() @ (ahead - behind) / (2 * step)
    assert solve_reference(SHORT).q @ direction == pytest.approx(slope, rel=1e-6)


def test_a_chain_without_solution_has_no_reference() -> None:
    with pytest.raises(RuntimeError, match="no reference: PRIMAL_INFEASIBLE"):
        solve_reference(Chain(stages=30, disturbance=0.5, seed=2))


def test_some_bounds_of_a_disturbed_chain_are_active() -> None:
    solution = altdiff.solve_qp(**SHORT.program().fields())
    assert 0.02 < np.mean(solution.z_box != 0.0) < 0.5


def test_residuals_of_sparse_and_of_dense_data_are_the_same() -> None:
    qp = SHORT.program()
    solution = altdiff.solve_qp(**qp.fields())
    point = Point(solution.x + 1e-3, solution.y, solution.z, solution.z_box)
    full = whole(qp)
    P, G, A = (matrix.toarray() for matrix in (full.P, full.G, full.A))
    dense = (P, full.q, G, full.h, A, full.b, full.lb, full.ub)
    assert worst_residual(qp, point) == pytest.approx(residuals_of(dense, point).worst, rel=1e-12)


def test_exponents_are_slopes_between_logarithms() -> None:
    points = [
        Growth(n, "SOLVED", 1e-6 * n, 1e-9 * n**2, 0 if n == 10 else n, 0.0, 0.0, 1) for n in (10, 100, 1000)
    ]
    assert exponents(points) == pytest.approx({"forward": 1.0, "backward": 2.0, "memory": 1.0})
    assert exponents(points[:1]) == {}


def test_the_command_prints_growth_and_writes_its_record(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(["--sizes", "60", "240", "--seconds", "0.01", "--no-peers", "--out", str(tmp_path)])
    assert "1.0 = linear" in capsys.readouterr().out
    record = json.loads((tmp_path / "chain.json").read_text(encoding="utf-8"))
    assert [point["n"] for point in record["growth"]] == [60, 240]
    assert all(point["status"] == "SOLVED" and point["residual"] <= 1e-8 for point in record["growth"])
