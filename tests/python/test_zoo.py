"""Small problems with rational solutions: x, the multipliers and the derivatives are known exactly."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
import pytest
from helpers.problems import Array, Data, as_sparse

FIELDS = ("P", "q", "G", "h", "A", "b")
EXACT = 1e-9
STEP = 1e-3  # x is piecewise linear in q, h and b: a small step is exact
SMOOTH = "ULSD"  # x is unique, active rows are independent, no row is weak, x is differentiable
ONE_WEAK_ROW = "UL"

# Each direction is a tangent and the one-sided derivative of x along it. Cases without flags are SMOOTH.
CASES: list[dict[str, Any]] = [
    {
        "id": "no active row",
        "P": [[1, 0], [0, 1]],
        "q": [-1, -2],
        "G": [[1, 0]],
        "h": [10],
        "x": [1, 2],
        "z": [0],
        "obj": "-5/2",
        "dirs": [[{"q": [1, 0]}, [-1, 0]], [{"h": [1]}, [0, 0]]],
    },
    {
        "id": "vertex of a linear program",
        "P": [[0, 0], [0, 0]],
        "q": [-1, -1],
        "G": [[1, 2], [3, 1], [-1, 0], [0, -1]],
        "h": [4, 6, 0, 0],
        "x": ["8/5", "6/5"],
        "z": ["2/5", "1/5", 0, 0],
        "obj": "-14/5",
        "dirs": [
            [{"q": [1, 0]}, [0, 0]],
            [{"h": [1, 0, 0, 0]}, ["-1/5", "3/5"]],
            [{"h": [0, 1, 0, 0]}, ["2/5", "-1/5"]],
        ],
    },
    {
        "id": "two-sided row",
        "P": [[1, 0], [0, 1]],
        "q": [-2, -2],
        "G": [[1, 1], [-1, -1]],
        "h": [1, 1],
        "x": ["1/2", "1/2"],
        "z": ["3/2", 0],
        "obj": "-7/4",
        "dirs": [
            [{"h": [1, 0]}, ["1/2", "1/2"]],
            [{"h": [0, 1]}, [0, 0]],
            [{"q": [1, 0]}, ["-1/2", "1/2"]],
        ],
    },
    {
        "id": "tie on the simplex",
        "P": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "q": [-1, -1, 0],
        "A": [[1, 1, 1]],
        "b": [1],
        "G": [[-1, 0, 0], [0, -1, 0], [0, 0, -1]],
        "h": [0, 0, 0],
        "x": ["1/2", "1/2", 0],
        "y": ["1/2"],
        "z": [0, 0, "1/2"],
        "obj": "-3/4",
        "dirs": [
            [{"q": [1, 0, 0]}, ["-1/2", "1/2", 0]],
            [{"q": [0, 0, 1]}, [0, 0, 0]],
            [{"b": [1]}, ["1/2", "1/2", 0]],
        ],
    },
    {
        "id": "rows of very different size",
        "P": [[1, 0], [0, 1]],
        "q": [-2, -2],
        "G": [[1000000, 1000000], ["1/1000000", 0]],
        "h": [1000000, "1/1000000"],
        "x": ["1/2", "1/2"],
        "z": ["3/2000000", 0],
        "obj": "-7/4",
        "dirs": [[{"h": [1, 0]}, ["1/2000000", "1/2000000"]]],
    },
    {
        "id": "x = min(-q, h) on its kink",
        "flags": ONE_WEAK_ROW,
        "P": [[1]],
        "q": [0],
        "G": [[1]],
        "h": [0],
        "x": [0],
        "z": [0],
        "obj": "0",
        "dirs": [[{"q": [1]}, [-1]], [{"q": [-1]}, [0]], [{"h": [1]}, [0]], [{"h": [-1]}, [-1]]],
    },
    {
        "id": "a row twice",
        "flags": "US",
        "P": [[1]],
        "q": [-1],
        "G": [[1], [1]],
        "h": [0, 0],
        "x": [0],
        "z": ["1/2", "1/2"],
        "obj": "0",
        "dirs": [[{"h": [1, 1]}, [1]], [{"h": [1, 0]}, [0]], [{"h": [-1, 0]}, [-1]], [{"q": [1]}, [0]]],
    },
    {
        "id": "an equality as two rows",
        "flags": "U",
        "P": [[1, 0], [0, 1]],
        "q": [-1, -1],
        "G": [[1, 0], [-1, 0]],
        "h": [0, 0],
        "x": [0, 1],
        "z": [1, 0],
        "obj": "-1/2",
        "dirs": [[{"q": [0, 1]}, [0, -1]], [{"h": [1, -1]}, [1, 0]]],
    },
]

NONUNIQUE: list[dict[str, Any]] = [
    {
        "id": "a segment of solutions",
        "P": [[1, 1], [1, 1]],
        "q": [-1, -1],
        "G": [[1, 0], [-1, 0], [0, 1], [0, -1]],
        "h": [1, 0, 1, 0],
        "obj": "-1/2",
    },
]

BAD: list[dict[str, Any]] = [
    {
        "id": "crossed rows",
        "P": [[1]],
        "q": [0],
        "G": [[1], [-1]],
        "h": [0, -1],
        "status": "primal_infeasible",
    },
    {"id": "0 x = 1", "P": [[1]], "q": [0], "A": [[0]], "b": [1], "status": "primal_infeasible"},
    {"id": "a falling line", "P": [[0]], "q": [-1], "G": [[-1]], "h": [0], "status": "dual_infeasible"},
    {
        "id": "indefinite in a box",
        "P": [[1, 2], [2, 1]],
        "q": [0, 0],
        "G": [[1, 0], [-1, 0], [0, 1], [0, -1]],
        "h": [1, 1, 1, 1],
        "status": "nonconvex",
    },
]


def more_cases() -> dict[str, list[dict[str, Any]]]:
    """The cases of zoo.json, where the data folder is at hand."""
    root = Path(__file__).resolve().parents[2]
    path = Path(os.environ.get("ALTDIFF_DATA", root.parent / "shared" / "data")) / "zoo" / "zoo.json"
    if not path.exists():
        return {"zoo": [], "bad": [], "nonunique": []}
    zoo: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    return zoo


MORE = more_cases()


def numbers(value: Any) -> Array:
    """Nested lists of fractions as floats."""
    if isinstance(value, list):
        return np.array([numbers(item) for item in value], dtype=np.float64)
    return np.asarray(float(Fraction(value)))


def data_of(case: dict[str, Any]) -> Data:
    return {name: numbers(case[name]) for name in FIELDS if case.get(name)}


def name_of(case: dict[str, Any]) -> str:
    return str(case["id"])


def flags_of(case: dict[str, Any]) -> str:
    return str(case.get("flags", SMOOTH))


def solved(data: Data, form: str) -> altdiff.Solution:
    return altdiff.solve_qp(**(as_sparse(data) if form == "sparse" else data))


def from_the_other_side(case: dict[str, Any], tangent: Data) -> Array | None:
    """The derivative of x along a tangent, from before it; None: there is no solution on that side."""
    data = data_of(case)
    moved = {name: value - STEP * tangent.get(name, 0) for name, value in data.items()}
    solution = altdiff.solve_qp(**moved)
    if solution.status is not altdiff.Status.SOLVED:
        return None
    before: Array = (numbers(case["x"]) - solution.x) / STEP
    return before


FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])
EVERY_CASE = pytest.mark.parametrize("case", [*CASES, *MORE["zoo"]], ids=name_of)


@FORMS
@EVERY_CASE
def test_the_solution_is_exact(case: dict[str, Any], form: str) -> None:
    solution = solved(data_of(case), form)
    assert solution.status is altdiff.Status.SOLVED
    assert solution.unique
    assert solution.degenerate is (flags_of(case) != SMOOTH)
    assert solution.objective == pytest.approx(float(Fraction(case["obj"])), abs=EXACT)
    for name in ("x", "y", "z"):
        if name in case:
            np.testing.assert_allclose(getattr(solution, name), numbers(case[name]), atol=EXACT)


@FORMS
@EVERY_CASE
def test_derivatives_lie_between_the_one_sided_ones(case: dict[str, Any], form: str) -> None:
    solution = solved(data_of(case), form)
    for fields, moved in case["dirs"]:
        if moved == "infeasible":
            continue
        tangent = {name: numbers(value) for name, value in fields.items()}
        after = numbers(moved)
        before = from_the_other_side(case, tangent)
        before = after if before is None else before
        ours = solution.jvp(**tangent).x
        assert np.all(ours >= np.minimum(after, before) - EXACT)
        assert np.all(ours <= np.maximum(after, before) + EXACT)
        if flags_of(case) in (SMOOTH, ONE_WEAK_ROW):
            np.testing.assert_allclose(ours, (after + before) / 2, atol=EXACT)


@FORMS
@EVERY_CASE
def test_the_adjoint_is_the_transpose_of_the_tangent(case: dict[str, Any], form: str) -> None:
    solution = solved(data_of(case), form)
    for fields, _ in case["dirs"]:
        tangent = {name: numbers(value) for name, value in fields.items()}
        ours = solution.jvp(**tangent).x
        for row, unit in enumerate(np.eye(ours.size)):
            gradient = solution.vjp(unit)
            inner = sum(np.sum(getattr(gradient, name) * value) for name, value in tangent.items())
            np.testing.assert_allclose(inner, ours[row], atol=EXACT)


@FORMS
@pytest.mark.parametrize("rows", ["equalities", "inequalities"])
def test_redundant_rows_share_their_multiplier(form: str, rows: str) -> None:
    twice = np.ones((2, 2))
    names = {"equalities": ("A", "b", "y"), "inequalities": ("G", "h", "z")}[rows]
    data = {"P": np.eye(2), "q": np.array([-1.0, -1.0]), names[0]: twice, names[1]: np.ones(2)}
    solution = solved(data, form)
    np.testing.assert_allclose(getattr(solution, names[2]), [0.25, 0.25], atol=EXACT)
    gradient = solution.vjp(np.array([1.0, 0.0]))
    np.testing.assert_allclose(getattr(gradient, names[1]), [0.25, 0.25], atol=EXACT)


@FORMS
@pytest.mark.parametrize("case", [*NONUNIQUE, *MORE["nonunique"]], ids=name_of)
def test_a_solution_that_is_not_unique_is_flagged(case: dict[str, Any], form: str) -> None:
    solution = solved(data_of(case), form)
    assert solution.status is altdiff.Status.SOLVED
    assert not solution.unique
    assert solution.degenerate
    assert solution.objective == pytest.approx(float(Fraction(case["obj"])), abs=EXACT)
    assert np.all(np.abs(solution.vjp(np.array([1.0, -2.0])).q) < 1e3)


def assert_proof(data: Data, solution: altdiff.Solution) -> None:
    """No x satisfies the rows, or the objective falls along x without end."""
    n = data["q"].size
    G, h = data.get("G", np.zeros((0, n))), data.get("h", np.zeros(0))
    A, b = data.get("A", np.zeros((0, n))), data.get("b", np.zeros(0))
    if solution.status is altdiff.Status.PRIMAL_INFEASIBLE:
        claim = -(b @ solution.y + h @ solution.z)
        assert claim > 0
        assert np.all(solution.z >= 0)
        assert np.max(np.abs(A.T @ solution.y + G.T @ solution.z)) <= EXACT * claim
        return
    d = solution.x
    fall = -(data["q"] @ d)
    assert fall > 0
    assert np.max(np.abs(data["P"] @ d), initial=0) <= EXACT * fall
    assert np.max(np.abs(A @ d), initial=0) <= EXACT * fall
    assert np.max(G @ d, initial=0) <= EXACT * fall


@FORMS
@pytest.mark.parametrize("bad", [*BAD, *MORE["bad"]], ids=name_of)
def test_a_bad_problem_is_reported_with_a_proof(bad: dict[str, Any], form: str) -> None:
    data = data_of(bad)
    solution = solved(data, form)
    either = "primal_or_dual_infeasible"
    allowed = {"primal_infeasible", "dual_infeasible"} if bad["status"] == either else {bad["status"]}
    assert solution.status.name.lower() in allowed
    if solution.status is not altdiff.Status.NONCONVEX:
        assert_proof(data, solution)
