"""Solutions cross process borders: the numbers are there at once, and derivatives when they are asked for."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import altdiff
import altdiff.torch
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from altdiff import Linear, LogSumExp, Quadratic, Separable, Status
from helpers.problems import POINT, Data, as_sparse, known_problem, natural_problem

REPORT = ("objective", "status", "iterations", "primal_residual", "dual_residual", "duality_gap")
FLAGS = ("degenerate", "unique", "margin")
COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "twice": lambda value: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(value)))),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


def dense_batch() -> Data:
    own = [natural_problem(seed, n=6, m=5, p=2) for seed in range(7)]
    batch: Data = {name: np.stack([data[name] for data in own]) for name in own[0]}
    return {**batch, "P": own[0]["P"]}


def linear_program() -> Data:
    """Solved by another engine than the active set, and at a vertex."""
    data = known_problem(3, n=6, m=8).data
    return {**data, "P": np.zeros((6, 6))}


PROGRAMS: dict[str, Data] = {
    "one": natural_problem(0, n=6, m=5, p=2),
    "batch": dense_batch(),
    "sparse": as_sparse(natural_problem(1, n=6, m=5, p=2)),
    "sparse batch": {**as_sparse(natural_problem(2, n=6, m=5, p=2)), "q": np.eye(6)[:4]},
    "sparse stack": {"P": [sp.csc_matrix(k * np.eye(3)) for k in (1.0, 2.0)], "q": np.ones(3), "ub": -0.4},
    "linear": linear_program(),
    "kink": {"P": np.eye(2), "q": np.array([0.0, 1.0]), "lb": np.zeros(2)},
    "two dimensions": {"P": np.eye(2), "q": np.ones((2, 1, 2)), "lb": np.zeros((3, 2))},
}


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal to the last bit, sparse matrices by what they store."""
    if ours is None or theirs is None:
        assert ours is theirs
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif hasattr(ours, "toarray"):
        np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    else:
        np.testing.assert_array_equal(ours, theirs)


def assert_same_solution(ours: Any, theirs: Any) -> None:
    for name in (*POINT, *REPORT, *FLAGS):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert type(ours.status) is type(theirs.status)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("data", PROGRAMS.values(), ids=PROGRAMS)
def test_a_copy_has_the_same_numbers_and_the_same_derivatives_bit_for_bit(
    data: Data, copied: Callable[[Any], Any]
) -> None:
    solution = altdiff.solve_qp(**data)
    other = copied(solution)
    assert_same_solution(other, solution)
    bar = np.random.default_rng(1).normal(size=solution.x.shape)
    for ours, theirs in zip(other.vjp(bar, z_box_bar=bar), solution.vjp(bar, z_box_bar=bar), strict=True):
        assert_same(ours, theirs)
    for ours, theirs in zip(other.jvp(q=bar), solution.jvp(q=bar), strict=True):
        assert_same(ours, theirs)
    assert_same(other.jacobian("q"), solution.jacobian("q"))


def test_settings_the_start_and_failures_go_along() -> None:
    data = dense_batch()
    data["h"][2] = -100.0  # no point is that far inside
    start = altdiff.solve_qp(**data)
    settings: dict[str, Any] = {"method": "alternating", "finish": False, "tolerance": 1e-5}
    solution = altdiff.solve_qp(**data, initial=start, **settings)
    other = pickle.loads(pickle.dumps(solution))
    assert solution.status[2] != Status.SOLVED
    assert_same_solution(other, solution)
    bar = np.ones_like(solution.x)
    assert_same(other.vjp(bar).q, solution.vjp(bar).q)


def test_what_the_caller_does_to_its_arrays_later_does_not_matter() -> None:
    data = natural_problem(4, n=6, m=5, p=2)
    solution = altdiff.solve_qp(**data)
    expected = solution.vjp(np.ones(6)).q
    stored = pickle.dumps(solution)
    for value in data.values():
        value.fill(np.nan)
    assert_same(pickle.loads(stored).vjp(np.ones(6)).q, expected)


def test_nothing_is_solved_or_printed_before_a_derivative_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    solution = altdiff.solve_qp(np.eye(2), np.ones(2), verbose=True)
    other = pickle.loads(pickle.dumps(solution))
    assert "batch" not in vars(other._solved)
    capsys.readouterr()
    other.vjp(np.ones(2))
    assert capsys.readouterr().out == ""
    assert "batch" in vars(other._solved)


def test_an_unpickled_solution_is_a_start() -> None:
    data = natural_problem(5, n=6, m=5, p=2)
    start = pickle.loads(pickle.dumps(altdiff.solve_qp(**data)))
    np.testing.assert_allclose(altdiff.solve_qp(**data, initial=start).x, start.x, atol=1e-12)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_solutions_of_convex_programs_survive(copied: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(2)
    q, M = rng.normal(size=(4, 1, 3)), rng.normal(size=(5, 3))
    objective = Linear(q) + LogSumExp(M) + Separable("entropy", weight=0.5) + Quadratic(np.eye(3))
    h = rng.uniform(1, 2, size=(2, 1))
    solution = altdiff.solve_convex(objective, G=np.ones((1, 3)), h=h, A=np.ones((1, 3)), b=[1.0])
    other = copied(solution)
    assert_same_solution(other, solution)
    bar = rng.normal(size=solution.x.shape)
    ours, theirs = other.vjp(bar), solution.vjp(bar)
    for one, another in zip(ours.objective, theirs.objective, strict=True):
        for name in one:
            assert_same(one[name], another[name])
    assert_same(ours.h, theirs.h)
    assert_same(other.jacobian("b"), solution.jacobian("b"))


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("kind", ["sparsemax", "softmax"])
@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_solutions_of_budgets_survive(copied: Callable[[Any], Any], kind: str, on_failure: str) -> None:
    y = np.random.default_rng(3).normal(size=(3, 4, 5))
    upper = np.full((3, 1, 5), 0.6)
    upper[2] = 0.1  # too small
    solution = altdiff.solve_budget(kind, y, upper, axis=1, on_failure=on_failure, total=1.2)
    other = copied(solution)
    for name in ("x", "status"):
        np.testing.assert_array_equal(getattr(other, name), getattr(solution, name))
    bar = np.random.default_rng(4).normal(size=y.shape)
    for ours, theirs in zip(other.vjp(bar), solution.vjp(bar), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(other.jvp(y=bar), solution.jvp(y=bar))


def test_a_solution_of_tensors_is_copied_without_its_history() -> None:
    q = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    solution = altdiff.torch.solve_qp(torch.eye(2, dtype=torch.float64), q, lb=-0.5)
    for other in (pickle.loads(pickle.dumps(solution)), copy.deepcopy(solution)):
        assert torch.equal(other.x, solution.x)
        assert torch.equal(other.status, solution.status)
        assert not other.x.requires_grad
    assert copy.copy(solution).x.requires_grad


def solved(seed: int) -> altdiff.Solution:
    return altdiff.solve_qp(**natural_problem(seed, n=6, m=5, p=2))


def gradient(solution: altdiff.Solution) -> Any:
    return solution.vjp(np.ones(6)).q


@pytest.mark.parametrize("context", ["fork", "spawn"])
# Python's own warning about fork in a process with threads, from 3.12 on.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_solutions_go_to_workers_and_come_from_them(context: str) -> None:
    seeds = range(6)
    own = [solved(seed) for seed in seeds]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(context)) as pool:
        theirs = list(pool.map(solved, seeds))
        gradients = list(pool.map(gradient, own))
    for ours, other, found in zip(own, theirs, gradients, strict=True):
        assert_same_solution(other, ours)
        np.testing.assert_array_equal(gradient(other), gradient(ours))
        np.testing.assert_array_equal(found, gradient(ours))
