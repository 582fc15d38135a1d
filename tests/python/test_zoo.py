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
EXACT = 1e-8

# Unique, with independent active rows, strictly complementary, differentiable. Each direction is a tangent
# and the derivative of x along it.
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


def more_cases() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The cases of zoo.json, where the data folder is at hand."""
    root = Path(__file__).resolve().parents[2]
    path = Path(os.environ.get("ALTDIFF_DATA", root.parent / "shared" / "data")) / "zoo" / "zoo.json"
    if not path.exists():
        return [], []
    zoo = json.loads(path.read_text(encoding="utf-8"))
    known = {status.name.lower() for status in altdiff.Status}
    smooth = [case for case in zoo["zoo"] if case["flags"] == "ULSD"]
    return smooth, [case for case in zoo["bad"] if case["status"] in known]


MORE, MORE_BAD = more_cases()


def numbers(value: Any) -> Array:
    """Nested lists of fractions as floats."""
    if isinstance(value, list):
        return np.array([numbers(item) for item in value], dtype=np.float64)
    return np.asarray(float(Fraction(value)))


def data_of(case: dict[str, Any]) -> Data:
    return {name: numbers(case[name]) for name in FIELDS if case.get(name)}


def name_of(case: dict[str, Any]) -> str:
    return str(case["id"])


@pytest.fixture(params=[*CASES, *MORE], ids=name_of)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


@pytest.fixture(params=["dense", "sparse"])
def solution(request: pytest.FixtureRequest, case: dict[str, Any]) -> altdiff.Solution:
    data = data_of(case)
    return altdiff.solve_qp(**(as_sparse(data) if request.param == "sparse" else data))


def test_the_solution_is_exact(case: dict[str, Any], solution: altdiff.Solution) -> None:
    assert solution.status is altdiff.Status.SOLVED
    assert not solution.degenerate
    assert solution.unique
    assert solution.objective == pytest.approx(float(Fraction(case["obj"])), abs=EXACT)
    for name in ("x", "y", "z"):
        if name in case:
            np.testing.assert_allclose(getattr(solution, name), numbers(case[name]), atol=EXACT)


def test_the_derivatives_are_exact(case: dict[str, Any], solution: altdiff.Solution) -> None:
    for fields, moved in case["dirs"]:
        tangent = {name: numbers(value) for name, value in fields.items()}
        expected = numbers(moved)
        np.testing.assert_allclose(solution.jvp(**tangent).x, expected, atol=EXACT)
        for row, unit in enumerate(np.eye(expected.size)):
            gradient = solution.vjp(unit)
            inner = sum(np.sum(getattr(gradient, name) * value) for name, value in tangent.items())
            np.testing.assert_allclose(inner, expected[row], atol=EXACT)


@pytest.mark.parametrize("bad", [*BAD, *MORE_BAD], ids=name_of)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_bad_problem_is_reported_as_what_it_is(bad: dict[str, Any], form: str) -> None:
    data = data_of(bad)
    solution = altdiff.solve_qp(**(as_sparse(data) if form == "sparse" else data))
    assert solution.status.name.lower() == bad["status"]
