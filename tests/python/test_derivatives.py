"""Derivatives agree with central differences and with an independent solve of the KKT system."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse
from helpers.differences import central_difference, relative_error
from helpers.kkt import kkt_gradient, kkt_jacobian, kkt_tangents
from helpers.problems import FIELDS, POINT, Array, Data, as_sparse, dense, known_problem, natural_problem

CASES = {
    "all blocks": {"n": 7, "m": 5, "p": 2, "bounds": True},
    "many rows": {"n": 4, "m": 12, "p": 1, "bounds": True},
    "no equalities": {"n": 5, "m": 4, "p": 0, "bounds": True},
    "no inequalities": {"n": 5, "m": 0, "p": 2, "bounds": True},
    "no bounds": {"n": 6, "m": 4, "p": 2, "bounds": False},
    "unconstrained": {"n": 4, "m": 0, "p": 0, "bounds": False},
    "one variable": {"n": 1, "m": 1, "p": 0, "bounds": True},
}


@pytest.fixture(params=list(CASES))
def data(request: pytest.FixtureRequest) -> Data:
    case: Any = CASES[request.param]
    return known_problem(seed=len(request.param), **case).data


@pytest.fixture(params=["dense", "sparse"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def solve(data: Data, form: str = "dense") -> altdiff.Solution:
    return altdiff.solve_qp(**(as_sparse(data) if form == "sparse" else data))


def random_bars(solution: altdiff.Solution, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=getattr(solution, name).shape) for name in POINT}


def gradient_of(solution: altdiff.Solution, bars: dict[str, Array]) -> altdiff.Gradient:
    return solution.vjp(*(bars.get(name) for name in POINT))


@pytest.mark.parametrize("outputs", [("x",), ("y",), ("z",), ("z_box",), POINT])
def test_the_vjp_agrees_with_the_kkt_solve(data: Data, form: str, outputs: tuple[str, ...]) -> None:
    solution = solve(data, form)
    bars = {name: bar for name, bar in random_bars(solution, seed=1).items() if name in outputs}
    gradient = gradient_of(solution, bars)
    for field in data:
        expected = kkt_gradient(data, solution, field, bars)
        assert relative_error(dense(getattr(gradient, field)), expected) < 1e-8, field


def test_the_vjp_agrees_with_central_differences(data: Data, form: str) -> None:
    solution = solve(data, form)
    bars = random_bars(solution, seed=2)
    gradient = gradient_of(solution, bars)
    rng = np.random.default_rng(3)
    for field in data:
        direction = rng.normal(size=data[field].shape)

        def loss(value: Array, field: str = field) -> Array:
            moved = solve({**data, field: value}, form)
            return np.asarray(sum(bars[name] @ getattr(moved, name) for name in POINT))

        expected = central_difference(loss, data[field], direction)
        assert relative_error(np.sum(dense(getattr(gradient, field)) * direction), expected) < 1e-6, field


def test_the_jvp_agrees_with_the_kkt_solve_and_with_central_differences(data: Data, form: str) -> None:
    solution = solve(data, form)
    rng = np.random.default_rng(4)
    for field in data:
        direction = rng.normal(size=data[field].shape)
        tangent = solution.jvp(**{field: direction})
        exact = kkt_tangents(data, solution, {field: direction[..., None]})
        for name in POINT:

            def moved(value: Array, field: str = field, name: str = name) -> Array:
                return np.asarray(getattr(solve({**data, field: value}, form), name))

            assert relative_error(getattr(tangent, name), exact[name][:, 0]) < 1e-8, (field, name)
            difference = central_difference(moved, data[field], direction)
            assert relative_error(getattr(tangent, name), difference) < 1e-6, (field, name)


def test_the_jvp_of_all_fields_at_once_is_the_sum_of_the_parts(data: Data, form: str) -> None:
    solution = solve(data, form)
    rng = np.random.default_rng(5)
    directions: Data = {field: rng.normal(size=value.shape) for field, value in data.items()}
    together = solution.jvp(**directions)
    parts = [solution.jvp(**{field: direction}).x for field, direction in directions.items()]
    assert relative_error(together.x, np.sum(parts, axis=0)) < 1e-9


@pytest.mark.parametrize("field", ["q", "h", "b", "lb", "ub"])
def test_the_jacobian_agrees_with_the_kkt_solve_and_with_central_differences(
    data: Data, form: str, field: str
) -> None:
    solution = solve(data, form)
    jacobian = solution.jacobian(field)
    assert relative_error(jacobian, kkt_jacobian(data, solution, field)) < 1e-8
    if field not in data:
        return
    for column, unit in enumerate(np.eye(data[field].size)):
        difference = central_difference(
            lambda value: solve({**data, field: value}, form).x, data[field], unit
        )
        assert relative_error(jacobian[:, column], difference) < 1e-6


def test_vjp_and_jvp_are_transposes(data: Data, form: str) -> None:
    solution = solve(data, form)
    rng = np.random.default_rng(6)
    bars = random_bars(solution, seed=7)
    gradient = gradient_of(solution, bars)
    for field in data:
        direction = rng.normal(size=data[field].shape)
        tangent = solution.jvp(**{field: direction})
        forward = sum(bars[name] @ getattr(tangent, name) for name in POINT)
        assert relative_error(np.sum(dense(getattr(gradient, field)) * direction), np.asarray(forward)) < 1e-8


def test_the_gradient_of_p_is_symmetric(data: Data, form: str) -> None:
    P_bar = dense(solve(data, form).vjp(np.arange(1.0, data["q"].size + 1)).P)
    np.testing.assert_allclose(P_bar, P_bar.T, atol=1e-14)


def test_fields_that_were_not_given_have_no_gradient() -> None:
    data = known_problem(seed=8, n=3, m=2, p=0, bounds=False).data
    gradient = solve(data).vjp(np.ones(3))
    assert [name for name in FIELDS if getattr(gradient, name) is None] == ["A", "b", "lb", "ub"]


@pytest.mark.parametrize("kind", [scipy.sparse.csc_matrix, scipy.sparse.csc_array])
def test_sparse_gradients_keep_the_pattern_and_the_kind(kind: Any) -> None:
    data = known_problem(seed=9, n=8, m=6, p=2, density=0.3).data
    matrices = {name: kind(data[name]) for name in ("P", "G", "A")}
    # A stored zero is part of the pattern.
    matrices["G"].data[0] = 0.0
    gradient = altdiff.solve_qp(**{**data, **matrices}).vjp(np.ones(8))
    full = altdiff.solve_qp(**{**data, "G": matrices["G"].toarray()}).vjp(np.ones(8))
    for name, matrix in matrices.items():
        sparse = getattr(gradient, name)
        assert isinstance(sparse, kind)
        np.testing.assert_array_equal(sparse.indices, matrix.indices)
        np.testing.assert_array_equal(sparse.indptr, matrix.indptr)
        pattern = kind((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape).toarray()
        np.testing.assert_allclose(sparse.toarray(), getattr(full, name) * pattern, atol=1e-8)


def test_a_dense_matrix_beside_a_sparse_one_gets_a_dense_gradient() -> None:
    data = known_problem(seed=10, n=6, m=4, p=2).data
    mixed = {**data, "P": scipy.sparse.csc_matrix(data["P"])}
    gradient, expected = altdiff.solve_qp(**mixed).vjp(np.ones(6)), solve(data).vjp(np.ones(6))
    for name in ("G", "A"):
        assert isinstance(getattr(gradient, name), np.ndarray)
        np.testing.assert_allclose(getattr(gradient, name), getattr(expected, name), atol=1e-8)
    tangent = altdiff.solve_qp(**mixed).jvp(P=data["P"], G=scipy.sparse.csr_matrix(data["G"]))
    np.testing.assert_allclose(tangent.x, solve(data).jvp(P=data["P"], G=data["G"]).x, atol=1e-8)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_the_gradient_of_a_shared_array_is_the_sum_over_the_batch(form: str) -> None:
    data = natural_problem(11, n=5, m=4, p=2)
    data = as_sparse(data) if form == "sparse" else data
    data["q"] = np.random.default_rng(11).normal(size=(3, 5))
    bars = np.random.default_rng(12).normal(size=(3, 5))
    gradient = altdiff.solve_qp(**data).vjp(bars)
    loop = [altdiff.solve_qp(**{**data, "q": q}).vjp(bar) for q, bar in zip(data["q"], bars, strict=True)]
    for name in FIELDS:
        each = [dense(getattr(one, name)) for one in loop]
        expected = np.stack(each) if name == "q" else np.sum(each, axis=0)
        assert dense(getattr(gradient, name)).shape == data[name].shape
        np.testing.assert_allclose(dense(getattr(gradient, name)), expected, atol=1e-12)


def test_gradients_take_the_shapes_of_arrays_that_were_broadcast() -> None:
    data = natural_problem(13, n=3, m=2, p=1)
    rng = np.random.default_rng(13)
    data |= {"q": rng.normal(size=(2, 1, 3)), "h": data["h"] + rng.uniform(size=(4, 2)), "ub": 5.0}
    solution = altdiff.solve_qp(**data)
    bar = rng.normal(size=solution.x.shape)
    gradient = solution.vjp(bar)
    full = {**data, "q": np.broadcast_to(data["q"], (2, 4, 3)), "h": np.broadcast_to(data["h"], (2, 4, 2))}
    full["ub"] = np.full((2, 4, 3), 5.0)
    each = altdiff.solve_qp(**full).vjp(bar)
    np.testing.assert_allclose(gradient.q, each.q.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(gradient.h, each.h.sum(axis=0), atol=1e-12)
    assert gradient.ub.shape == ()
    np.testing.assert_allclose(gradient.ub, each.ub.sum(), atol=1e-12)


def test_tangents_and_jacobians_of_a_batch_equal_a_loop() -> None:
    data = natural_problem(14, n=4, m=3, p=1)
    rng = np.random.default_rng(14)
    data["q"] = rng.normal(size=(3, 4))
    dq, dP = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    solution = altdiff.solve_qp(**data)
    tangent, jacobian = solution.jvp(q=dq, P=dP), solution.jacobian("b")
    for index in range(3):
        one = altdiff.solve_qp(**{**data, "q": data["q"][index]})
        np.testing.assert_allclose(tangent.x[index], one.jvp(q=dq[index], P=dP).x, atol=1e-13)
        np.testing.assert_allclose(jacobian[index], one.jacobian("b"), atol=1e-13)


def test_a_row_that_does_not_exist_has_a_zero_gradient() -> None:
    known = known_problem(seed=15, n=4, m=3, p=0)
    h = np.where(known.z > 0, known.data["h"], np.inf)
    gradient = solve({**known.data, "h": h}).vjp(np.ones(4), z_bar=np.ones(3))
    np.testing.assert_array_equal(gradient.h[known.z == 0], 0.0)
    np.testing.assert_array_equal(gradient.G[known.z == 0], 0.0)


def test_an_instance_with_zero_cotangents_adds_nothing_even_when_it_is_invalid() -> None:
    data = natural_problem(16, n=3, m=2, p=1)
    data["q"] = np.stack([data["q"], np.full(3, np.nan)])
    solution = altdiff.solve_qp(**data)
    gradient = solution.vjp(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))
    expected = altdiff.solve_qp(**{**data, "q": data["q"][0]}).vjp([1.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient.P, expected.P, atol=1e-13)
    np.testing.assert_allclose(gradient.q, np.stack([expected.q, np.zeros(3)]), atol=1e-13)


@pytest.mark.parametrize(
    ("form", "n", "repeated"), [("sparse", 400, 0), ("sparse", 400, 1), ("dense", 200, 1)]
)
def test_rows_that_are_nearly_dependent_are_not_taken_for_dependent_ones(
    form: str, n: int, repeated: int
) -> None:
    # Second differences: the least eigenvalue of G G' is about (pi/n)^4, and rounds are slow along it.
    rng = np.random.default_rng(0)
    rows = [*range(n - 2), *range(repeated)]
    G = np.diff(np.eye(n), n=2, axis=0)[rows]
    x, z = rng.normal(size=n), rng.uniform(1, 2, size=len(rows))
    solution = solve({"P": np.eye(n), "q": -x - G.T @ z, "G": G, "h": G @ x}, form)
    assert solution.unique
    assert solution.degenerate == (repeated > 0)
    x_bar = rng.normal(size=n)
    span = np.linalg.qr(G[: n - 2].T)[0]
    np.testing.assert_allclose(solution.vjp(x_bar).q, span @ (span.T @ x_bar) - x_bar, atol=1e-6)


@pytest.mark.parametrize(("push", "held"), [(-3.0, "ub"), (3.0, "lb")])
@pytest.mark.parametrize("kind", ["alone", "shared", "own", "sparse"])
def test_the_gradient_of_a_fixed_variable_belongs_to_the_bound_that_holds_it(
    push: float, held: str, kind: str
) -> None:
    P: Any = np.diag([1.0, 2.0, 3.0])
    vectors: Any = {
        "q": np.array([push, 0.5, 0.2]),
        "lb": np.array([1.0, -5, -5]),
        "ub": np.array([1.0, 5, 5]),
    }
    if kind in ("shared", "own"):
        vectors = {name: np.stack([value] * 5) for name, value in vectors.items()}
        P = np.stack([P] * 5) if kind == "own" else P
    solution = altdiff.solve_qp(scipy.sparse.csc_matrix(P) if kind == "sparse" else P, **vectors)
    gradient = solution.vjp(np.ones_like(solution.x))
    other = "lb" if held == "ub" else "ub"
    np.testing.assert_allclose(getattr(gradient, held)[..., 0], 1.0, rtol=1e-12)
    np.testing.assert_array_equal(getattr(gradient, other)[..., 0], 0.0)
