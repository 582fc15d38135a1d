"""The dense engine: optimality, derivatives and failures on problems of every structure."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse
from altdiff import Status
from helpers.differences import central_difference, relative_error
from helpers.kkt import kkt_gradient, kkt_jacobian, kkt_tangents
from helpers.problems import POINT, Array, Data, as_sparse, filled, kkt_error, known_problem, natural_problem

METHODS = ["auto", "active_set"]


def mixed_problem(seed: int) -> Data:
    """A feasible problem whose structure depends on the seed: any block may be absent, any limit infinite."""
    rng = np.random.default_rng(seed)
    n = 1 if seed % 10 == 0 else int(rng.integers(2, 25))
    m = 0 if seed % 7 == 0 else int(rng.integers(1, 3 * n + 1))
    p = 0 if seed % 3 == 0 else int(rng.integers(0, (n + 1) // 2))
    data = natural_problem(seed, n, m, p)
    data["q"] *= rng.choice([1.0, 30.0])  # with a strong pull as many rows are active as there can be
    if seed % 11 == 0:  # and here none
        data["h"] += 1e3
        data["lb"] -= 1e3
        data["ub"] += 1e3
    if m and seed % 2:
        data["h"][rng.uniform(size=m) < 0.3] = np.inf
    if seed % 5 == 0:
        data["lb"][rng.uniform(size=n) < 0.5] = -np.inf
        data["ub"][rng.uniform(size=n) < 0.5] = np.inf
    if m == p == 0 and seed % 5:
        data["lb"][0] = data["ub"][0] = 0.5 * (data["lb"][0] + data["ub"][0])
    absent = {0: ("lb", "ub"), 1: ("lb",), 2: ("ub",)}.get(seed % 6, ())
    return {name: value for name, value in data.items() if name not in absent}


def active_constraints(solution: altdiff.Solution) -> int:
    return int(np.count_nonzero(solution.z) + np.count_nonzero(solution.z_box))


@pytest.mark.parametrize("method", METHODS)
def test_the_optimality_conditions_hold_on_two_hundred_problems_of_mixed_structure(method: str) -> None:
    active = []
    for seed in range(200):
        data = mixed_problem(seed)
        solution = altdiff.solve_qp(**data, method=method)
        assert solution.status is Status.SOLVED, seed
        scale = max(1.0, np.abs(data["q"]).max(), np.abs(solution.z).max(initial=0.0))
        assert kkt_error(data, solution) < 1e-10 * scale, seed
        active.append((active_constraints(solution), data["q"].size - solution.y.size))
    assert any(count == 0 for count, _ in active)
    assert any(count == freedom > 1 for count, freedom in active)


def test_the_sparse_engine_finds_the_same_solutions() -> None:
    for seed in range(0, 200, 8):
        data = mixed_problem(seed)
        dense, sparse = altdiff.solve_qp(**data), altdiff.solve_qp(**as_sparse(data))
        assert relative_error(sparse.x, dense.x) < 1e-7, seed


def vertex(seed: int) -> Data:
    """A problem with as many active bounds as variables: x does not depend on q."""
    rng = np.random.default_rng(seed)
    x, side = rng.normal(size=4), np.array([1.0, -1.0, 1.0, -1.0])
    P = np.diag(rng.uniform(1.0, 2.0, size=4))
    lb, ub = np.where(side < 0, x, x - 1.0), np.where(side > 0, x, x + 1.0)
    return {"P": P, "q": -P @ x - 2.0 * side, "lb": lb, "ub": ub}


def interior(seed: int) -> Data:
    """A problem whose limits are far away."""
    data = known_problem(seed, n=5, m=4, p=1).data
    return {**data, "h": data["h"] + 100.0, "lb": data["lb"] - 100.0, "ub": data["ub"] + 100.0}


def half_limited(seed: int) -> Data:
    """A problem in which limits that are not active do not exist."""
    known = known_problem(seed, n=7, m=6, p=2)
    data = dict(known.data)
    data["h"] = np.where(known.z > 0.0, data["h"], np.inf)
    data["lb"] = np.where(known.z_box < 0.0, data["lb"], -np.inf)
    data["ub"] = np.where(known.z_box > 0.0, data["ub"], np.inf)
    return data


CASES = {
    "all blocks": known_problem(1, n=7, m=5, p=2).data,
    "many rows": known_problem(2, n=4, m=12, p=1).data,
    "one variable": known_problem(3, n=1, m=1, p=0).data,
    "no inequalities": known_problem(4, n=5, m=0, p=2).data,
    "no equalities": known_problem(5, n=5, m=4, p=0).data,
    "nothing active": interior(6),
    "unconstrained": known_problem(7, n=4, bounds=False).data,
    "a vertex": vertex(8),
    "infinite limits": half_limited(9),
}


@pytest.fixture(params=list(CASES))
def data(request: pytest.FixtureRequest) -> Data:
    return CASES[request.param]


def solve(data: Data) -> altdiff.Solution:
    solution = altdiff.solve_qp(**data, method="active_set")
    assert solution.status is Status.SOLVED
    return solution


def random_bars(solution: altdiff.Solution, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=getattr(solution, name).shape) for name in POINT}


@pytest.mark.parametrize("outputs", [("x",), ("y",), ("z",), ("z_box",), POINT])
def test_the_vjp_agrees_with_an_independent_kkt_solve(data: Data, outputs: tuple[str, ...]) -> None:
    solution = solve(data)
    bars = {name: bar for name, bar in random_bars(solution, seed=1).items() if name in outputs}
    gradient = solution.vjp(*(bars.get(name) for name in POINT))
    for field in data:
        expected = kkt_gradient(data, solution, field, bars)
        assert relative_error(getattr(gradient, field), expected) < 1e-10, field


def test_the_vjp_agrees_with_central_differences(data: Data) -> None:
    solution = solve(data)
    bars = random_bars(solution, seed=2)
    gradient = solution.vjp(*bars.values())
    rng = np.random.default_rng(3)
    for field in data:
        direction = rng.normal(size=data[field].shape)

        def loss(value: Array, field: str = field) -> Array:
            moved = solve({**data, field: value})
            return np.asarray(sum(bars[name] @ getattr(moved, name) for name in POINT))

        expected = central_difference(loss, data[field], direction)
        assert relative_error(np.sum(getattr(gradient, field) * direction), expected) < 1e-6, field


def test_the_jvp_agrees_with_the_kkt_solve_and_with_central_differences(data: Data) -> None:
    solution = solve(data)
    rng = np.random.default_rng(4)
    for field in data:
        direction = rng.normal(size=data[field].shape)
        tangent = solution.jvp(**{field: direction})
        exact = kkt_tangents(data, solution, {field: direction[..., None]})
        for name in POINT:

            def moved(value: Array, field: str = field, name: str = name) -> Array:
                return np.asarray(getattr(solve({**data, field: value}), name))

            assert relative_error(getattr(tangent, name), exact[name][:, 0]) < 1e-10, (field, name)
            difference = central_difference(moved, data[field], direction)
            assert relative_error(getattr(tangent, name), difference) < 1e-6, (field, name)


@pytest.mark.parametrize("field", ["q", "h", "b", "lb", "ub"])
def test_the_jacobian_agrees_with_the_kkt_solve_and_with_the_jvp(data: Data, field: str) -> None:
    solution = solve(data)
    jacobian = solution.jacobian(field)
    assert jacobian.shape == (data["q"].size, filled(data)[field].size)
    assert relative_error(jacobian, kkt_jacobian(data, solution, field)) < 1e-10
    if field in data:
        direction = np.random.default_rng(5).normal(size=data[field].shape)
        assert relative_error(jacobian @ direction, solution.jvp(**{field: direction}).x) < 1e-11


def test_derivatives_hold_when_the_active_set_is_left_to_chance() -> None:
    checked = 0
    for seed in range(40):
        data = natural_problem(seed, n=6, m=5, p=2)
        solution = solve(data)
        if solution.margin < 1e-3:
            continue
        checked += 1
        bars = random_bars(solution, seed)
        gradient = solution.vjp(*bars.values())
        for field in data:
            expected = kkt_gradient(data, solution, field, bars)
            assert relative_error(getattr(gradient, field), expected) < 1e-9, (seed, field)
    assert checked > 20


def test_a_variable_that_its_bounds_fix_moves_with_them() -> None:
    data = known_problem(10, n=5, m=3, p=0).data
    at = 0.5 * (data["lb"][1] + data["ub"][1])
    for name in ("lb", "ub"):
        data[name] = np.where(np.arange(5) == 1, at, data[name])
    solution = solve(data)
    unit = np.eye(5)[1]
    both = solution.jvp(lb=unit, ub=unit).x
    assert both[1] == pytest.approx(1.0, abs=1e-12)

    def moved(shift: Array) -> Array:
        return solve({**data, "lb": data["lb"] + shift, "ub": data["ub"] + shift}).x

    assert relative_error(both, central_difference(moved, np.zeros(5), unit)) < 1e-6
    gradient = solution.vjp(np.ones(5))
    assert gradient.lb[1] + gradient.ub[1] == pytest.approx(both.sum(), abs=1e-10)


def test_a_sparse_matrix_is_refused_with_what_to_do() -> None:
    data = known_problem(11, n=5, m=4, p=2).data
    for name in ("P", "G", "A"):
        sparse: Data = {**data, name: scipy.sparse.csc_matrix(data[name])}
        with pytest.raises(ValueError, match=r"'active_set' is for dense.*use 'auto', or convert"):
            altdiff.solve_qp(**sparse, method="active_set")
        assert altdiff.solve_qp(**sparse, method="auto").status is Status.SOLVED


@pytest.mark.parametrize("method", METHODS)
def test_contradictory_constraints_leave_a_certificate(method: str) -> None:
    for seed in range(20):
        data = natural_problem(seed, n=6, m=4, p=2)
        data["G"][3] = -data["G"][0] - data["G"][1]  # the sum of three rows says 0 <= -1
        data["h"][3] = -data["h"][0] - data["h"][1] - 1.0
        solution: Any = altdiff.solve_qp(**data, method=method)
        assert solution.status is Status.PRIMAL_INFEASIBLE, seed
        y, z, z_box = solution.y, solution.z, solution.z_box
        size = max(np.abs(y).max(), z.max(), np.abs(z_box).max())
        assert z.min() >= 0.0
        combination = data["A"].T @ y + data["G"].T @ z + z_box
        assert np.abs(combination).max() < 1e-8 * size, seed
        bounds = np.where(z_box > 0, data["ub"], data["lb"])
        assert data["b"] @ y + data["h"] @ z + bounds @ z_box < 0.0, seed


@pytest.mark.parametrize("method", METHODS)
def test_p_may_be_semidefinite_but_not_indefinite(method: str) -> None:
    for seed in range(10):
        data = natural_problem(seed, n=6, m=4, p=2)
        V = np.random.default_rng(seed).normal(size=(6, 3))
        for P in (V @ V.T, V @ V.T + 1e-13 * np.eye(6), np.zeros((6, 6))):
            flat = {**data, "P": P}
            solution = altdiff.solve_qp(**flat, method=method)
            assert solution.status is Status.SOLVED, seed
            assert kkt_error(flat, solution) < 1e-7, seed
            assert np.isfinite(solution.vjp(np.ones(6)).q).all()
        indefinite = {**data, "P": data["P"] - 10.0 * np.eye(6)}
        assert altdiff.solve_qp(**indefinite, method=method).status is Status.NONCONVEX


def test_the_limits_of_changes_and_of_time_are_kept() -> None:
    data = natural_problem(12, n=20, m=20, p=3)
    assert altdiff.solve_qp(**data).iterations > 1
    stopped = altdiff.solve_qp(**data, max_iterations=1)
    assert stopped.status is Status.MAX_ITERATIONS
    assert stopped.iterations <= 1
    assert altdiff.solve_qp(**data, time_limit=1e-12).status is Status.TIME_LIMIT
