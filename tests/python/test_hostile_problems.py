"""The hostile benchmark: its problems, its check, and the library on a few hundred of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
import pytest
from helpers.kkt import kkt_gradient
from helpers.problems import FIELDS, POINT, filled, known_problem

from benchmarks.hostile.__main__ import main
from benchmarks.hostile.checks import gradient_error, residuals
from benchmarks.hostile.kinds import GROUP, Kind
from benchmarks.hostile.problems import Point, Problem, make_problem
from benchmarks.hostile.runs import CRASH, INACCURATE, NOT_FINITE, SOLVED, WRONG, Task, run

TOLERANCE = 1e-8
PROBLEMS = [make_problem(0, index) for index in range(400)]


def tame() -> tuple[Problem, Point]:
    """A problem with every sort of constraint, and its solution."""
    known = known_problem(seed=3, n=8, m=6, p=2)
    point = Point(known.x, known.y, known.z, known.z_box)
    return Problem(0, 0, frozenset(), **filled(known.data), built_around=point), point


def some(count: int, **options: Any) -> Task:
    usual: dict[str, Any] = {"batched": False, "settings": {}, "gradient_share": 0.0}
    return Task(0, 0, count, **{**usual, **options})


def test_every_problem_is_feasible_at_the_point_that_it_was_built_around() -> None:
    for problem in PROBLEMS:
        assert residuals(problem, problem.built_around).primal <= 1e-13


def test_a_problem_that_was_built_from_a_solution_has_it() -> None:
    known = [problem for problem in PROBLEMS if Kind.FREE_Q not in problem.kinds]
    assert len(known) > len(PROBLEMS) // 2
    for problem in known:
        assert residuals(problem, problem.built_around).within(1e-12)


def test_every_problem_is_strictly_convex() -> None:
    for problem in PROBLEMS:
        np.testing.assert_array_equal(problem.P, problem.P.T)
        scale = np.sqrt(np.diag(problem.P))
        np.linalg.cholesky(problem.P / np.outer(scale, scale))  # raises unless positive definite


def test_every_kind_occurs_and_says_the_truth() -> None:
    assert set(Kind) == {kind for problem in PROBLEMS for kind in problem.kinds}
    for problem in PROBLEMS:
        assert (Kind.FIXED in problem.kinds) == (problem.lb == problem.ub).any()
        assert (Kind.UNLIMITED in problem.kinds) == np.isinf(problem.h).any()
        assert (Kind.ZERO_ROW in problem.kinds) == (~problem.G.any(axis=1)).any()
        assert (Kind.ZERO_Q in problem.kinds) == (~problem.q.any())
        if Kind.DUPLICATE in problem.kinds:
            assert len(np.unique(problem.G, axis=0)) < len(problem.G)
        if Kind.REDUNDANT in problem.kinds:
            rows = problem.A / np.linalg.norm(problem.A, axis=1, keepdims=True)
            assert np.linalg.matrix_rank(rows, tol=1e-10) < len(rows)


def test_seed_and_index_make_the_problem() -> None:
    for index in (0, 17, 4711):
        first, second, other = make_problem(1, index), make_problem(1, index), make_problem(2, index)
        assert first.kinds == second.kinds
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert first.q.shape != other.q.shape or (first.q != other.q).any()


def test_the_problems_of_a_group_have_one_shape() -> None:
    for first in range(0, len(PROBLEMS), GROUP):
        assert len({problem.shape for problem in PROBLEMS[first : first + GROUP]}) == 1


@pytest.mark.parametrize("part", POINT)
def test_the_check_accepts_the_solution_and_rejects_a_perturbed_one(part: str) -> None:
    problem, point = tame()
    assert residuals(problem, point).within(TOLERANCE)
    perturbed = replace(point, **{part: getattr(point, part) + 1e-6})
    assert not residuals(problem, perturbed).within(TOLERANCE)
    broken = replace(point, **{part: np.full_like(getattr(point, part), np.nan)})
    assert not residuals(problem, broken).within(TOLERANCE)


def test_the_check_rejects_multipliers_of_limits_that_do_not_exist() -> None:
    problem, point = tame()
    h = np.where(point.z > 0.0, np.inf, problem.h)
    lb = np.where(point.z_box < 0.0, -np.inf, problem.lb)
    assert residuals(replace(problem, h=h), point).dual > 1e-2
    assert residuals(replace(problem, lb=lb), point).dual > 1e-2


def test_the_check_of_gradients_accepts_the_right_one_only() -> None:
    problem, point = tame()
    x_bar = np.random.default_rng(0).normal(size=8)
    data = {name: getattr(problem, name) for name in FIELDS}
    q_bar = kkt_gradient(data, point, "q", {"x": x_bar})
    right = gradient_error(problem, point, x_bar, q_bar)
    wrong = gradient_error(problem, point, x_bar, 1.001 * q_bar)
    assert right is not None
    assert wrong is not None
    assert right < 1e-3
    assert wrong > 1.0


def test_whatever_is_called_solved_is_solved() -> None:
    outcomes = run(some(200))
    assert sum(outcome.status == SOLVED for outcome in outcomes) >= 0.9 * len(outcomes)
    for outcome in outcomes:
        assert outcome.status != CRASH, outcome
        assert outcome.fault not in (WRONG, NOT_FINITE), outcome


def test_batches_end_as_their_members_do_alone() -> None:
    outcomes = run(some(3 * GROUP, batched=True))
    alone = {outcome.index: outcome.status for outcome in outcomes if not outcome.batched}
    together = {outcome.index: outcome.status for outcome in outcomes if outcome.batched}
    assert alone == together


@pytest.mark.parametrize(("field", "fault"), [("x", WRONG), ("q", INACCURATE), ("h", NOT_FINITE)])
def test_an_answer_that_is_spoiled_is_found(monkeypatch: Any, field: str, fault: str) -> None:
    solve_qp, vjp = altdiff.solve_qp, altdiff.Solution.vjp
    spoil = {"x": 1e-3, "q": 1e-3, "h": np.nan}[field]

    def spoiled_solve(*args: Any, **settings: Any) -> altdiff.Solution:
        solution = solve_qp(*args, **settings)
        return replace(solution, x=solution.x + spoil) if field == "x" else solution

    def spoiled_vjp(self: altdiff.Solution, x_bar: Any) -> altdiff.Gradient:
        gradient = vjp(self, x_bar)
        value = gradient._asdict().get(field)
        return gradient if value is None else gradient._replace(**{field: value * (1.0 + spoil)})

    monkeypatch.setattr(altdiff, "solve_qp", spoiled_solve)
    monkeypatch.setattr(altdiff.Solution, "vjp", spoiled_vjp)
    assert fault in {outcome.fault for outcome in run(some(3 * GROUP, gradient_share=1.0))}


def test_the_table_is_printed_and_written(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "folder" / "hostile.txt"
    arguments = ["--count", "20", "--output", str(file)]
    assert main([*arguments, "--threshold", "50"]) == 0
    text = file.read_text()
    assert text == capsys.readouterr().out
    assert "total" in text
    assert "Passed" in text
    assert main([*arguments, "--threshold", "101"]) == 1


def test_an_exception_fails_the_run_and_names_the_problem(
    monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    def refuse(*args: Any, **settings: Any) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(altdiff, "solve_qp", refuse)
    assert main(["--count", "3", "--output", str(tmp_path / "table.txt"), "--threshold", "0"]) == 1
    assert "CRASH: 0 1 2 (the first: ZeroDivisionError: by chance)" in capsys.readouterr().out


def test_one_problem_can_be_shown_and_saved(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "problem.npz"
    assert main(["--only", "12", "--save", str(file)]) == 0
    assert "recomputed" in capsys.readouterr().out
    saved, problem = np.load(file), PROBLEMS[12]
    for name in FIELDS:
        np.testing.assert_array_equal(saved[name], getattr(problem, name))
