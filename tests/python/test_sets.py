"""The commands that run over a folder of problems."""

from __future__ import annotations

import sys
from pathlib import Path

import altdiff
import numpy as np
import pytest
from helpers.problems import known_problem

from benchmarks.sets.__main__ import main
from benchmarks.sets.active_rows import kkt_adjoint, largest_step
from benchmarks.sets.derivative_table import derivative_table
from benchmarks.sets.derivatives import Derivatives, check, rounds
from benchmarks.sets.solvers import whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two problems with a derivative, and one without: x is not unique."""
    for seed in range(2):
        np.savez(tmp_path / f"KNOWN{seed}.npz", **known_problem(seed=seed, n=8, m=6, p=2).data)
    np.savez(tmp_path / "FLAT.npz", P=np.zeros((2, 2)), q=np.array([1.0, 0.0]), lb=np.zeros(2), ub=np.ones(2))
    return tmp_path


def test_the_derivatives_of_a_folder_are_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sets", str(folder), "--derivatives"])
    main()
    out = capsys.readouterr().out
    assert "3 of 3 SOLVED, adjoint finite in 3 of them" in out
    assert "not degenerate: 2; gradient of q = differences to 1e-05: 2" in out
    assert "unique: 2; same to 1e-06 from tolerances 1e-6 to 1e-10: 2" in out
    assert "at most 5 rounds of the adjoint: 3 of 3, 100 %" in out


def test_the_table_shows_the_residual_before_the_finish(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sets", str(folder), "--only", "KNOWN0"])
    main()
    head, _, line, *_ = capsys.readouterr().out.splitlines()
    assert "before finish  residual" in head
    before, after = (float(number) for number in line.split()[7:9])
    assert after < 1e-14
    assert before < 1e-8


def test_a_wrong_gradient_is_listed_with_its_numbers() -> None:
    wrong = Derivatives(
        "SOLVED", finite=True, rounds=9, difference=0.1, step=1e-3, other=1e-12, tolerances=1e-3
    )
    out = derivative_table({"BAD": wrong, "WORSE": Derivatives("MAX_ITERATIONS")})
    assert (
        "BAD: differs from central differences by 1.0e-01 at step 1.0e-03, from sparse LU by 1.0e-12" in out
    )
    assert "BAD: differs by 1.0e-03 between tolerances" in out
    assert "BAD: 9 rounds" in out
    assert "WORSE: MAX_ITERATIONS" in out


def test_the_active_set_stays_up_to_the_largest_step_and_not_beyond() -> None:
    known = known_problem(seed=1, n=8, m=6, p=2)
    qp = altdiff.QuadraticProgram(**known.data)
    solution = altdiff.solve_qp(**known.data)
    d = np.random.default_rng(0).normal(size=8)
    step = largest_step(whole(qp), solution, solution.jvp(q=d))
    gradients = [
        kkt_adjoint(whole(qp), altdiff.solve_qp(**{**known.data, "q": qp.q + t * step * d}), d)
        for t in (-1.01, -0.99, 0, 0.99, 1.01)
    ]
    same = [np.allclose(gradient, gradients[2], atol=1e-9) for gradient in gradients]
    assert same[1:4] == [True, True, True]
    assert not (same[0] and same[4])


def test_a_well_conditioned_adjoint_needs_few_rounds() -> None:
    known = known_problem(seed=2, n=40, m=30, p=10)
    qp = altdiff.QuadraticProgram(**known.data)
    assert 1 <= rounds(qp) <= 4
    assert check(qp, 10.0).rounds <= 4
