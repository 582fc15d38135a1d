"""The paper's Algorithm 1: its Jacobians, its trace, and what Theorem 4.1 says of them."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
from altdiff import Entropy, alternating_differentiation
from helpers.differences import central_difference, relative_error
from helpers.kkt import kkt_jacobian, kkt_tangents
from helpers.problems import Array, Data, as_sparse, known_problem

TIGHT: dict[str, Any] = {"tolerance": 1e-13, "stopping": "residual"}


def problem() -> Data:
    return known_problem(seed=2, n=6, m=5, p=2).data


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("field", ["q", "b", "h", "lb", "ub"])
def test_the_jacobian_agrees_with_the_kkt_solve(field: str, form: str) -> None:
    data = problem()
    result = alternating_differentiation(
        **(as_sparse(data) if form == "sparse" else data), wrt=field, **TIGHT
    )
    solution = altdiff.solve_qp(**data)
    assert result.converged
    np.testing.assert_allclose(result.x, solution.x, atol=1e-10)
    np.testing.assert_allclose(result.y, solution.y, atol=1e-9)
    np.testing.assert_allclose(result.z, solution.z, atol=1e-9)
    assert relative_error(result.jacobian, kkt_jacobian(data, solution, field)) < 1e-8


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("fields", [("P",), ("A",), ("G",), ("P", "q", "G", "h", "A", "b", "lb", "ub")])
def test_a_tangent_gives_the_directional_derivative(fields: tuple[str, ...], form: str) -> None:
    data = problem()
    rng = np.random.default_rng(1)
    tangent: Data = {field: rng.normal(size=data[field].shape) for field in fields}
    given = as_sparse(data) if form == "sparse" else data
    result = alternating_differentiation(**given, tangent=tangent, **TIGHT)
    solution = altdiff.solve_qp(**data)
    exact = kkt_tangents(data, solution, {field: value[..., None] for field, value in tangent.items()})
    assert result.jacobian.shape == (6,)
    assert relative_error(result.jacobian, exact["x"][:, 0]) < 1e-8


def entropy_problem() -> tuple[Array, Data]:
    """A softmax with constraints of each kind, some of which are active."""
    rng = np.random.default_rng(3)
    n = 6
    G = rng.normal(size=(3, n))
    inside = np.full(n, 1 / n)
    data: Data = {
        "G": G,
        "h": G @ inside + np.array([0.02, 0.5, 0.5]),
        "A": np.ones((1, n)),
        "b": np.ones(1),
        "lb": np.full(n, 0.08),
        "ub": np.full(n, 0.25),
    }
    return rng.normal(size=n), data


@pytest.mark.parametrize("field", ["y", "b", "h", "lb", "ub"])
def test_the_jacobian_of_the_entropy_agrees_with_central_differences(field: str) -> None:
    y, data = entropy_problem()

    def x_of(value: Array) -> Array:
        moved = Entropy(value if field == "y" else y)
        fields = data if field == "y" else {**data, field: value}
        return alternating_differentiation(objective=moved, **fields, **TIGHT).x

    result = alternating_differentiation(objective=Entropy(y), wrt=field, **data, **TIGHT)
    assert result.converged
    at = y if field == "y" else data[field]
    for column, unit in enumerate(np.eye(at.size)):
        assert relative_error(result.jacobian[:, column], central_difference(x_of, at, unit)) < 1e-6


def test_the_entropy_problem_has_active_constraints_of_each_kind() -> None:
    y, data = entropy_problem()
    result = alternating_differentiation(objective=Entropy(y), **data, **TIGHT)
    assert (result.z > 1e-3).any()
    assert (result.x < data["lb"] + 1e-9).any()
    assert (result.x > data["ub"] - 1e-9).any()


@pytest.mark.parametrize("field", ["G", "A", "y"])
def test_a_tangent_of_the_entropy_agrees_with_central_differences(field: str) -> None:
    y, data = entropy_problem()
    at = y if field == "y" else data[field]
    direction = np.random.default_rng(4).normal(size=at.shape)

    def x_of(value: Array) -> Array:
        moved = Entropy(value if field == "y" else y)
        fields = data if field == "y" else {**data, field: value}
        return alternating_differentiation(objective=moved, **fields, **TIGHT).x

    result = alternating_differentiation(objective=Entropy(y), tangent={field: direction}, **data, **TIGHT)
    assert relative_error(result.jacobian, central_difference(x_of, at, direction)) < 1e-6


def test_entropy_without_inequalities_is_a_softmax() -> None:
    y = np.array([1.0, 2.0, -1.0])
    result = alternating_differentiation(objective=Entropy(y), A=np.ones((1, 3)), b=[1.0], wrt="y", **TIGHT)
    softmax = np.exp(y) / np.exp(y).sum()
    np.testing.assert_allclose(result.x, softmax, atol=1e-10)
    np.testing.assert_allclose(result.jacobian, np.diag(softmax) - np.outer(softmax, softmax), atol=1e-9)


def test_the_trace_holds_every_round() -> None:
    data = problem()
    result = alternating_differentiation(**data, trace=True, **TIGHT)
    trace = result.trace
    assert trace is not None
    assert set(trace) == {"x_norm", "jacobian_norm", "primal_residual", "dual_residual", "active_rows"}
    assert {len(values) for values in trace.values()} == {result.iterations}
    assert trace["x_norm"][-1] == pytest.approx(np.linalg.norm(result.x))
    assert trace["jacobian_norm"][-1] == pytest.approx(np.linalg.norm(result.jacobian))
    known = known_problem(seed=2, n=6, m=5, p=2)
    assert trace["active_rows"][-1] == np.count_nonzero(known.z) + np.count_nonzero(known.z_box)
    for residual in ("primal_residual", "dual_residual"):
        assert trace[residual].max() > 1e-3
        assert trace[residual][-1] < 1e-12


def test_without_a_trace_there_is_none() -> None:
    assert alternating_differentiation(**problem()).trace is None


def test_native_bounds_take_the_same_rounds_as_stacked_rows() -> None:
    data = problem()
    n = data["q"].size
    native = alternating_differentiation(**data, trace=True, **TIGHT)
    stacked = {name: data[name] for name in ("P", "q", "A", "b")}
    stacked["G"] = np.vstack([data["G"], -np.eye(n), np.eye(n)])
    stacked["h"] = np.concatenate([data["h"], -data["lb"], data["ub"]])
    rows = alternating_differentiation(**stacked, trace=True, **TIGHT)
    assert native.iterations == pytest.approx(rows.iterations, abs=1)
    assert native.trace is not None
    assert rows.trace is not None
    rounds = min(native.iterations, rows.iterations)
    for name in ("x_norm", "jacobian_norm", "active_rows"):
        np.testing.assert_allclose(native.trace[name][:rounds], rows.trace[name][:rounds], rtol=1e-9)
    np.testing.assert_allclose(native.jacobian, rows.jacobian, atol=1e-10)


def test_max_iterations_truncates_and_says_so() -> None:
    result = alternating_differentiation(**problem(), max_iterations=7, **TIGHT)
    assert result.iterations == 7
    assert not result.converged


def test_theorem_4_1_once_the_active_set_is_right_the_gradient_error_falls_with_the_error_of_x() -> None:
    known = known_problem(seed=2, n=6, m=5, p=2)
    exact = kkt_jacobian(known.data, known, "b")
    ratios, errors = [], []
    for rounds in range(20, 160, 10):
        result = alternating_differentiation(**known.data, max_iterations=rounds, tolerance=1e-300)
        np.testing.assert_array_equal(result.z > 0, known.z > 0)
        errors.append(np.linalg.norm(result.x - known.x))
        ratios.append(np.linalg.norm(result.jacobian - exact) / errors[-1])
    assert max(errors) > 1e-2
    assert min(errors) < 1e-8
    assert max(ratios) < 20 * min(ratios)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wrt": "P"}, "wrt must be one of q, h, b, lb, ub, got 'P'; use tangent for a matrix"),
        ({"A": None, "b": None}, "wrt is 'b', but b is absent"),
        ({"tangent": {"c": 1}}, "tangent must name fields among P, q, G, h, A, b, lb, ub, got 'c'"),
        ({"stopping": "never"}, "stopping must be one of paper, residual, got 'never'"),
        ({"rho": -1.0}, "rho must"),
        ({"tolerance": 0.0}, "tolerance must"),
        ({"max_iterations": -1}, "max_iterations must"),
        ({"q": np.ones((2, 6))}, "takes one instance"),
        ({"objective": Entropy(np.ones(6))}, "objective replaces P and q: leave them out"),
    ],
)
def test_a_wrong_argument_is_named(arguments: Data, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alternating_differentiation(**{**problem(), **arguments})


def test_a_wrong_y_is_named() -> None:
    with pytest.raises(ValueError, match="y must not hold NaN"):
        alternating_differentiation(objective=Entropy([np.nan, 1.0]), A=[[1, 1]], b=[1])
    with pytest.raises(ValueError, match="y must have shape"):
        Entropy(np.ones((2, 2)))
