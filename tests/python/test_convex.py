"""`solve_convex`: smooth convex objectives for NumPy, their solutions and their derivatives."""

from __future__ import annotations

import re
from typing import Any

import altdiff
import numpy as np
import pytest
from altdiff import Linear, LogSumExp, Quadratic, Separable, Status, solve_convex
from helpers.convex_problems import EXAMPLES, N, binding_constraints, example, parted
from helpers.differences import central_difference, relative_error
from helpers.problems import POINT, Array

CLOSE = 1e-6


def weights(solution: Any) -> dict[str, Array]:
    """A cotangent with a different number for every entry."""
    return {
        name: np.linspace(0.5, 1.5, getattr(solution, name).size).reshape(getattr(solution, name).shape)
        for name in POINT
    }


def loss(solution: Any) -> Array:
    return np.asarray(sum((bar * getattr(solution, name)).sum() for name, bar in weights(solution).items()))


def solved(name: str, values: dict[str, Any]) -> Any:
    numbers, constraints = parted(values)
    return solve_convex(example(name).build(**numbers), **constraints, tolerance=1e-10)


def gradient_of(solution: Any, field: str, values: dict[str, Any]) -> Array:
    """The gradient of the loss, wherever in the terms the field is."""
    bars = weights(solution)
    gradient = solution.vjp(*(bars[name] for name in POINT))
    return np.asarray(_find(gradient, field, values))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_gradient_of_every_number_is_that_of_central_differences(name: str) -> None:
    values = {**example(name).numbers, **binding_constraints()}
    solution = solved(name, values)
    assert solution.status is Status.SOLVED
    assert solution.margin > 1e-4  # differences do not step over a kink
    assert solution.z.max() > 0
    for field, value in values.items():
        gradient = gradient_of(solution, field, values)
        assert gradient.shape == np.shape(value)
        for i in np.ndindex(*np.shape(value)):
            unit = np.zeros(np.shape(value))
            unit[i] = 1.0

            def moved(v: Array, field: str = field) -> Array:
                return loss(solved(name, {**values, field: v}))

            slope = central_difference(moved, value, unit)
            assert relative_error(gradient[i], slope) < CLOSE, (field, i)


@pytest.mark.parametrize("name", EXAMPLES)
def test_jvp_is_the_transpose_of_vjp(name: str) -> None:
    rng = np.random.default_rng(1)
    values = {**example(name).numbers, **binding_constraints()}
    solution = solved(name, values)
    changes = {field: rng.normal(size=np.shape(value)) for field, value in values.items()}
    numbers, constraints = parted(changes)
    build = example(name).build(**parted(values)[0])
    terms: list[dict[str, Any]] = []
    for t, term in enumerate(build.terms):
        own = [f for f, v in term.numbers.items() if v is not None]
        last = t == len(build.terms) - 1
        terms.append(
            {f: numbers["ridge" if f == "weight" and last and "ridge" in numbers else f] for f in own}
        )
    tangent = solution.jvp(terms, **constraints)
    moved = sum((bar * getattr(tangent, part)).sum() for part, bar in weights(solution).items())
    pulled = sum((gradient_of(solution, field, values) * changes[field]).sum() for field in values)
    assert moved == pytest.approx(float(pulled), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_batch_of_shared_and_own_numbers_is_a_loop_over_its_instances(name: str) -> None:
    rng = np.random.default_rng(2)
    values = {**example(name).numbers, **binding_constraints()}
    own = [
        field for i, field in enumerate(values) if i % 2 == 0 and field != "P" and np.ndim(values[field]) > 0
    ]
    for field in own:
        shape = np.shape(values[field])
        values[field] = values[field] * (1.0 + 0.002 * rng.uniform(-1, 1, size=(2, 3, *shape)))
    whole = solved(name, values)
    assert whole.x.shape == (2, 3, N)
    assert (whole.status == Status.SOLVED).all()
    totals = {field: np.zeros(np.shape(value)) for field, value in values.items()}
    for i in np.ndindex(2, 3):
        instance = {f: v[i] if f in own else v for f, v in values.items()}
        alone = solved(name, instance)
        np.testing.assert_allclose(whole.x[i], alone.x, rtol=0, atol=1e-9)
        np.testing.assert_allclose(whole.z[i], alone.z, rtol=1e-7, atol=1e-7)
        bars = {part: bar[i] for part, bar in weights(whole).items()}
        gradient = alone.vjp(*(bars[part] for part in POINT))
        for field in values:
            found = _find(gradient, field, instance)
            if field in own:
                totals[field][i] = found
            else:
                totals[field] += found
    for field, total in totals.items():
        assert relative_error(gradient_of(whole, field, values), total) < CLOSE, field


def _find(gradient: Any, field: str, values: dict[str, Any]) -> Any:
    if field in parted(values)[1]:
        return getattr(gradient, field)
    if field == "ridge":
        return gradient.objective[-1]["weight"]
    return next(term[field] for term in gradient.objective if term.get(field) is not None)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_answer_does_not_depend_on_what_was_solved_before(name: str) -> None:
    # Small programs are solved in memory that others of their size have used.
    values = {**example(name).numbers, **binding_constraints()}
    first, gradient = solved(name, values), gradient_of(solved(name, values), "h", values)
    looser = {**values, "h": values["h"] + 0.3, "b": values["b"] * 0.9}
    solved(name, looser).vjp(np.ones(N))
    again = solved(name, values)
    for part in POINT:
        np.testing.assert_array_equal(getattr(first, part), getattr(again, part))
    np.testing.assert_array_equal(gradient, gradient_of(again, "h", values))


def test_a_quadratic_objective_has_the_solution_of_solve_qp() -> None:
    values: dict[str, Any] = {**example("quadratic").numbers, **binding_constraints()}
    ours = solved("quadratic", values)
    theirs = altdiff.solve_qp(**values)
    for part in POINT:
        np.testing.assert_allclose(getattr(ours, part), getattr(theirs, part), rtol=0, atol=1e-9)
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-10)


def test_the_simplex_with_entropy_is_a_softmax() -> None:
    y = np.random.default_rng(3).normal(size=(7, 6)) * 10
    solution = solve_convex(Linear(-y) + Separable("entropy"), A=np.ones((1, 6)), b=np.ones(1))
    expected = np.exp(y - y.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        solution.x, expected / expected.sum(axis=1, keepdims=True), rtol=1e-7, atol=1e-12
    )


def test_terms_add_up_also_by_sum_and_say_what_they_are() -> None:
    q = np.array([1.0, -2.0])
    twice = sum([Linear(q), Linear(q), Quadratic(np.eye(2))])
    assert isinstance(twice, altdiff.Objective)
    np.testing.assert_allclose(solve_convex(twice).x, -2 * q, atol=1e-12)
    assert repr(twice) == "Linear(q) + Linear(q) + Quadratic(P)"
    assert repr(Separable("logistic", weight=q)) == "Separable(softplus, weight)"
    assert repr(Separable("poisson")) == "Separable(exp)"


def test_without_constraints_the_gradient_of_the_objective_vanishes() -> None:
    rng = np.random.default_rng(4)
    M, offset = rng.normal(size=(6, 3)), rng.normal(size=6)
    x = solve_convex(Separable("exp", 1.0, M, offset) + Separable("exp", 1.0, -M, offset)).x
    np.testing.assert_allclose(M.T @ (np.exp(M @ x - offset) - np.exp(-M @ x - offset)), 0, atol=1e-9)


def test_one_variable_and_a_batch_of_none_work() -> None:
    assert solve_convex(Separable("exp", 1.0, np.ones((1, 1))) + Linear(np.array([-2.0]))).x == pytest.approx(
        np.log(2)
    )
    empty = solve_convex(Linear(np.zeros((0, 3))) + Separable("entropy"), A=np.ones((1, 3)), b=np.ones(1))
    assert empty.x.shape == (0, 3)
    assert np.asarray(empty.vjp(np.zeros((0, 3))).A).shape == (1, 3)


def test_contradictory_constraints_have_a_proof() -> None:
    G, h = np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([1.0, -2.0])
    solution = solve_convex(Separable("entropy", np.ones(2)), G=G, h=h)
    assert solution.status is Status.PRIMAL_INFEASIBLE
    np.testing.assert_allclose(G.T @ solution.z, 0, atol=1e-8)
    assert h @ solution.z < 0


def test_an_objective_without_end_says_so() -> None:
    assert solve_convex(Linear(np.array([1.0, 0.0])) + Separable("exp")).status in (
        Status.DUAL_INFEASIBLE,
        Status.MAX_ITERATIONS,
        Status.NUMERICAL_ERROR,
    )


def test_nan_raises_where_it_is_shared_and_is_a_status_where_it_is_not() -> None:
    A, b = np.ones((1, 3)), np.ones(1)
    q = np.zeros((2, 3))
    q[1, 1] = np.nan
    solution = solve_convex(Linear(q) + Separable("entropy"), A=A, b=b)
    assert list(solution.status) == [Status.SOLVED, Status.INVALID_DATA]
    np.testing.assert_allclose(solution.x[0], 1 / 3)
    with pytest.raises(ValueError, match=r"Linear\.q must not hold NaN"):
        solve_convex(Linear(q[1]) + Separable("entropy"), A=A, b=b)


@pytest.mark.parametrize("temperature", [1e-2, 1e-3, 1e-4, 1e-6])
def test_at_low_temperature_x_is_a_vertex_and_its_derivative_is_finite(temperature: float) -> None:
    y = np.random.default_rng(5).normal(size=6)
    objective = Linear(-y) + Separable("entropy", temperature)
    solution = solve_convex(objective, A=np.ones((1, 6)), b=np.ones(1))
    assert solution.status is Status.SOLVED
    shifted = np.exp((y - y.max()) / temperature)
    np.testing.assert_allclose(solution.x, shifted / shifted.sum(), rtol=1e-6, atol=1e-300)
    assert np.isfinite(np.asarray(solution.vjp(np.arange(6.0)).objective[0]["q"])).all()


@pytest.mark.parametrize("excess", [1e-3, 1e-6, 1e-9, 0.0])
def test_caps_that_leave_almost_no_room_are_met(excess: float) -> None:
    y = np.random.default_rng(6).normal(size=6)
    caps = np.full(6, (1.0 + excess) / 6)
    solution = solve_convex(Linear(-y) + Separable("entropy"), A=np.ones((1, 6)), b=np.ones(1), ub=caps)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x.sum(), 1.0, rtol=0, atol=1e-8)
    assert (solution.x <= caps + 1e-12).all()
    gradient = solution.vjp(np.arange(6.0))
    assert all(np.isfinite(getattr(gradient, name)).all() for name in ("A", "b", "ub"))


def test_bounds_may_hold_every_variable() -> None:
    point = np.linspace(0.1, 0.4, 4)
    solution = solve_convex(Linear(np.ones(4)) + Separable("exp"), lb=point, ub=point)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, point)
    np.testing.assert_allclose(solution.z_box, -1.0 - np.exp(point))


def test_tangents_of_a_batch_are_those_of_its_instances() -> None:
    rng = np.random.default_rng(7)
    q, dq, weight = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), np.array(0.5)
    simplex: dict[str, Any] = {"A": np.ones((1, 4)), "b": np.ones(1)}

    def solved_at(s: float) -> Array:
        objective = Linear(q + s * dq) + Separable("entropy", weight + s)
        return np.asarray(solve_convex(objective, **simplex).x)

    moved = solve_convex(Linear(q) + Separable("entropy", weight), **simplex).jvp(
        [{"q": dq}, {"weight": 1.0}]
    )
    slope = (solved_at(1e-5) - solved_at(-1e-5)) / 2e-5
    assert relative_error(moved.x, slope) < CLOSE


def test_an_initial_point_is_used_and_must_fit() -> None:
    values = {**example("softplus with a map").numbers, **binding_constraints()}
    first = solved("softplus with a map", values)
    numbers, constraints = parted(values)
    objective = example("softplus with a map").build(**numbers)
    again = solve_convex(objective, **constraints, initial=first)
    assert again.iterations <= first.iterations
    np.testing.assert_allclose(again.x, first.x, atol=1e-9)
    with pytest.raises(ValueError, match=r"initial must have shape \(5,\), got \(4,\)"):
        solve_convex(objective, **constraints, initial=np.zeros(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Separable("entropie"), "kind must be one of square, entropy"),
        (lambda: Separable("power"), 'exponent goes with kind "power"'),
        (lambda: Separable("exp", exponent=3), 'exponent goes with kind "power"'),
        (lambda: Separable("power", exponent=1.5), "exponent must be at least 2"),
        (
            lambda: solve_convex(Quadratic(np.eye(3)[:2])),
            "Quadratic.P must have shape (..., n, n) with n = 3",
        ),
        (
            lambda: solve_convex(Linear(np.ones(3)) + LogSumExp(np.ones((2, 4)))),
            "term 2: LogSumExp.M must have shape (..., k, n) with k = 2, n = 3, got (2, 4)",
        ),
        (lambda: solve_convex(Separable("exp")), "how many variables there are is not known"),
        (
            lambda: solve_convex(Linear(np.ones((2, 3))), lb=np.zeros((4, 3))),
            "the batch dimensions do not broadcast together: Linear.q (2, 3), lb (4, 3)",
        ),
        (lambda: solve_convex(Linear(np.ones(3)), G=np.ones((1, 2)), h=np.ones(1)), "G must have shape"),
        (lambda: solve_convex(Linear(np.ones(3)), G=np.ones((1, 3))), "h is missing"),
    ],
)
def test_a_mistake_is_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
