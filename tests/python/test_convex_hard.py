"""Smooth convex programs at the edge: low temperatures, no room, ends of domains, no minimum, no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from altdiff import Linear, LogSumExp, Quadratic, Separable, Status, solve_convex
from altdiff.torch import solve_convex as torch_solve
from helpers.convex_hard import NEXT_TO_END, mapped, stationarity
from helpers.differences import central_difference, relative_error

from benchmarks.convex.instances import kkt_residual, random_instance

if TYPE_CHECKING:
    from altdiff import Objective
    from helpers.problems import Array

KKT = 1e-9
Q = np.array([1.0, -2.0, 0.5, 0.3])
SIMPLEX: dict[str, Any] = {"A": np.ones((1, 4)), "b": np.ones(1)}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        # Bounds hold all but a few variables, so that the dual's Hessian is singular on the way.
        *(("entropy", seed) for seed in (62, 197, 1957, 4286)),
        *(("binary entropy", seed) for seed in (346, 356, 378, 899, 963, 1343, 1529, 1557)),
        # The multipliers of the first steps are 1e10 times those of the solution.
        *(("exp", seed) for seed in (1552, 3576, 4913)),
        ("power", 4927),
        # The summands of the gradient cancel each other.
        *(("softplus", seed) for seed in (766, 1331)),
        *(("pseudo-huber", seed) for seed in (702, 1464, 1866)),
        ("log-sum-exp", 1124),
    ],
)
def test_hard_random_instances_are_solved(kind: str, seed: int) -> None:
    instance = random_instance(kind, seed)
    solution = solve_convex(instance.objective, **instance.constraints)
    assert solution.status is Status.SOLVED
    assert kkt_residual(instance, solution) < KKT


def test_a_solution_that_no_number_can_hold_is_not_called_solved() -> None:
    solution = solve_convex(Linear(np.full(2, -800.0)) + Separable("entropy"))  # x = e^799
    assert solution.status is Status.NUMERICAL_ERROR


@pytest.mark.parametrize("temperature", [1e-3, 1e-6, 1e-9])
def test_rows_and_bounds_hold_at_low_temperatures(temperature: float) -> None:
    rng = np.random.default_rng(1)
    y, G = rng.normal(size=8), rng.normal(size=(3, 8))
    solution = solve_convex(
        Linear(-y) + Separable("entropy", temperature),
        A=np.ones((1, 8)),
        b=np.ones(1),
        G=G,
        h=G.mean(axis=1),
        ub=0.3,
    )
    assert solution.status is Status.SOLVED
    assert solution.primal_residual < KKT
    assert (G @ solution.x <= G.mean(axis=1) + KKT).all()
    assert np.isfinite(np.asarray(solution.vjp(y).objective[0]["q"])).all()


@pytest.mark.parametrize("room", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("kind", ["entropy", "-log", "binary entropy", "softplus"])
def test_caps_may_leave_hardly_any_room(kind: str, room: float) -> None:
    caps = np.array([0.1, 0.2, 0.3, 0.4]) * (1.0 + room)
    solution = solve_convex(Linear(Q) + Separable(kind), **SIMPLEX, ub=caps)
    assert solution.status is Status.SOLVED
    assert abs(solution.x.sum() - 1.0) < KKT
    assert (solution.x <= caps).all()


def test_caps_that_leave_no_room_are_infeasible() -> None:
    solution = solve_convex(Linear(Q) + Separable("entropy"), **SIMPLEX, ub=0.2499)
    assert solution.status is Status.PRIMAL_INFEASIBLE


@pytest.mark.parametrize("kind", ["entropy", "-log", "binary entropy", "exp"])
def test_bounds_may_be_active_at_every_variable(kind: str) -> None:
    lb, ub = np.full(4, 0.2), np.full(4, 0.7)
    q = 50.0 * np.array([1.0, -1.0, 1.0, -1.0])
    solution = solve_convex(Linear(q) + Separable(kind), lb=lb, ub=ub)
    assert solution.status is Status.SOLVED
    np.testing.assert_array_equal(solution.x, np.where(q > 0, lb, ub))
    assert (solution.z_box * q < 0).all()


@pytest.mark.parametrize("lb", [None, -1.0, 0.0])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_a_variable_that_bounds_hold_at_zero_is_left_out(lb: float | None, ridge: float) -> None:
    ub = np.array([0.0, 1.0, 1.0, 1.0])

    def solved(q: Array, n: int = 4) -> Any:
        objective: Objective = Linear(q) + Separable("entropy", np.full(n, 0.5))
        if ridge > 0:
            objective = objective + Quadratic(ridge * np.eye(n))
        low = lb if n == 4 else None
        return solve_convex(objective, A=np.ones((1, n)), b=np.ones(1), ub=ub[4 - n :], lb=low)

    whole, rest = solved(Q), solved(Q[1:], 3)
    assert whole.status is Status.SOLVED
    assert whole.x[0] == 0.0
    np.testing.assert_allclose(whole.x[1:], rest.x, rtol=0, atol=1e-12)
    assert whole.z_box[0] > 300.0  # what stands for infinity
    gradient = whole.vjp(np.arange(4.0))
    assert np.isfinite(np.asarray(gradient.objective[1]["weight"])).all()
    slope = central_difference(lambda q: np.arange(4.0) @ solved(q).x, Q, np.ones(4) * [1, 2, 3, 4])
    assert relative_error(np.asarray(gradient.objective[0]["q"]) @ [1, 2, 3, 4], slope) < 1e-6
    np.testing.assert_allclose(np.asarray(gradient.objective[0]["q"])[0], 0.0, atol=1e-12)


def test_the_derivative_by_a_bound_at_the_end_is_that_of_the_bound_next_to_it() -> None:
    def gradient(first: float) -> Any:
        ub = np.array([first, 1.0, 1.0, 1.0])
        return solve_convex(Linear(Q) + Separable("entropy"), **SIMPLEX, ub=ub, lb=-1.0).vjp(np.arange(4.0))

    np.testing.assert_allclose(gradient(0.0).ub, gradient(1e-9).ub, rtol=1e-6, atol=1e-9)
    assert not np.asarray(gradient(0.0).lb).any()


def test_derivatives_of_all_orders_are_finite_where_a_bound_holds_a_variable_at_zero() -> None:
    ub = torch.tensor([0.0, 0.4, 1.0, 1.0], dtype=torch.float64)

    def second(q: torch.Tensor) -> torch.Tensor:
        objective = Linear(q) + Separable("entropy", 0.7)
        return torch.as_tensor(torch_solve(objective, A=np.ones((1, 4)), b=np.ones(1), ub=ub).x[2])

    q = torch.tensor(Q, requires_grad=True)
    assert torch.autograd.gradcheck(second, q)
    assert torch.autograd.gradgradcheck(second, q)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_both_ends_of_a_binary_entropy_may_be_held(ridge: float) -> None:
    objective = Linear(Q) + Separable("binary entropy", np.ones(4)) + Quadratic(ridge * np.eye(4))
    solution = solve_convex(objective, lb=[-1.0, 1.0, -3.0, 0.0], ub=[0.0, 2.0, 5.0, 1.0])
    assert solution.status is Status.SOLVED
    assert (solution.x[:2] == [0.0, 1.0]).all()
    slope = Q[2:] + np.log(solution.x[2:] / (1.0 - solution.x[2:])) + ridge * solution.x[2:]
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)


def test_instances_of_a_batch_may_be_held_at_different_ends() -> None:
    ub = np.array([[0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    solution = solve_convex(Linear(Q) + Separable("entropy"), **SIMPLEX, ub=ub, lb=-1.0)
    assert (solution.status == Status.SOLVED).all()
    np.testing.assert_array_equal(solution.x == 0.0, ub == 0.0)
    gradient = solution.vjp(np.ones((3, 4)) * np.arange(4.0))
    assert np.asarray(gradient.ub).shape == (3, 4)
    assert np.asarray(gradient.lb).shape == ()


@pytest.mark.parametrize("ub", [0.0, -1.0])
def test_minus_log_at_the_end_of_its_domain_is_infeasible(ub: float) -> None:
    solution = solve_convex(Linear(Q) + Separable("-log"), ub=np.array([ub, 1.0, 1.0, 1.0]))
    assert solution.status is Status.PRIMAL_INFEASIBLE
    assert solve_convex(Separable("-log", np.ones(2)), G=np.ones((1, 2)), h=[0.0]).status is (
        Status.PRIMAL_INFEASIBLE
    )


@pytest.mark.parametrize("kind", ["entropy", "-log", "binary entropy"])
def test_a_weight_of_zero_means_that_the_term_and_its_domain_are_absent(kind: str) -> None:
    weight = np.array([0.0, 1.0, 1.0, 1.0])
    limits: dict[str, Any] = {"lb": np.array([-2.0, 0.1, 0.1, 0.1]), "ub": 0.9}
    solution = solve_convex(Linear(Q) + Separable(kind, weight), **limits)
    assert solution.status is Status.SOLVED
    assert solution.x[0] == -2.0
    rest = solve_convex(Linear(Q[1:]) + Separable(kind), lb=limits["lb"][1:], ub=0.9)
    np.testing.assert_allclose(solution.x[1:], rest.x, rtol=0, atol=1e-9)
    assert np.isfinite(np.asarray(solution.vjp(np.ones(4)).objective[1]["weight"])).all()


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("kind", ["entropy", "binary entropy", "-log"])
def test_arguments_of_a_map_may_be_driven_to_the_end_of_the_domain(kind: str, seed: int) -> None:
    program = mapped(kind, seed)
    solution = solve_convex(program.objective, **program.constraints)
    assert solution.status is Status.SOLVED
    residual, distance = stationarity(program, solution)
    assert residual < 1e-8
    assert distance < 10.0  # roundings of M x - offset


@pytest.mark.parametrize(("kind", "seed"), NEXT_TO_END)
def test_derivatives_next_to_the_end_are_those_of_central_differences(kind: str, seed: int) -> None:
    program = mapped(kind, seed)
    rng = np.random.default_rng(seed)
    bar = rng.normal(size=program.q.size)
    solution = solve_convex(program.objective, **program.constraints)
    assert not solution.degenerate
    gradient = solution.vjp(bar).objective
    for field, place in (("q", 0), ("offset", 1), ("M", 1), ("weight", 1)):
        value = getattr(program, field)
        direction = rng.normal(size=value.shape)

        def moved(v: Array, field: str = field) -> Array:
            other = program.with_numbers(**{field: v})
            return np.asarray(bar @ solve_convex(other.objective, **other.constraints).x)

        slope = central_difference(moved, value, direction)
        assert relative_error((np.asarray(gradient[place][field]) * direction).sum(), slope) < 1e-5, field


def test_a_batch_next_to_the_end_is_a_loop_over_its_instances() -> None:
    program = mapped("binary entropy", 284)
    q = program.q * np.array([[1.0], [0.01], [0.3], [-1.0]])  # only some of them are next to the end
    bar = np.random.default_rng(3).normal(size=q.shape)

    def solved(numbers: Array) -> Any:
        return solve_convex(program.with_numbers(q=numbers).objective, **program.constraints)

    whole = solved(q)
    gradient = whole.vjp(bar)
    total = np.zeros_like(program.M)
    for i in range(4):
        alone = solved(q[i])
        np.testing.assert_allclose(whole.x[i], alone.x, rtol=0, atol=1e-9)
        of_one = alone.vjp(bar[i])
        np.testing.assert_allclose(
            np.asarray(gradient.objective[0]["q"])[i], of_one.objective[0]["q"], rtol=0, atol=1e-8
        )
        total += np.asarray(of_one.objective[1]["M"])
    np.testing.assert_allclose(gradient.objective[1]["M"], total, rtol=1e-6, atol=1e-7)


def test_a_binary_entropy_beside_other_terms_may_be_next_to_one() -> None:
    q = np.array([-90.0, 90.0, 3.0])  # x = 1 - 1e-39, 1e-39, and between
    objective = Linear(q) + Separable("binary entropy", np.ones(3)) + Quadratic(0.1 * np.eye(3))
    solution = solve_convex(objective)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x[:2], [1.0, 0.0], rtol=0, atol=1e-15)
    middle = solution.x[2]
    assert abs(3.0 + np.log(middle / (1.0 - middle)) + 0.1 * middle) < 1e-9
    assert np.isfinite(np.asarray(solution.vjp(np.ones(3)).objective[1]["weight"])).all()


def test_rows_that_leave_only_the_end_of_a_domain_are_solved_next_to_it() -> None:
    """No multiplier exists, but for every row that is violated by its rounding there is one."""
    M = np.array([[1.0, 1.0], [1.0, -1.0]])
    objective = Linear(np.ones(2)) + Separable("entropy", np.ones(2), M)
    solution = solve_convex(objective, A=[[1.0, 1.0]], b=[0.0], lb=-1.0, ub=1.0)
    assert solution.status is Status.SOLVED
    assert abs(solution.x.sum()) < 1e-12
    np.testing.assert_allclose(solution.x[0], 0.5 * np.exp(-1.0), rtol=1e-9)


@pytest.mark.parametrize(
    ("objective", "constraints", "endless"),
    [
        (Separable("exp", np.ones(3)), {}, False),
        (Separable("exp", M=np.random.default_rng(0).normal(size=(3, 5))), {}, False),
        (Separable("softplus", M=-np.abs(np.random.default_rng(1).normal(size=(9, 3)))), {}, False),
        (Linear(-np.ones(3)) + Separable("softplus"), {}, False),
        (Linear(np.ones(2)) + Separable("pseudo-huber"), {}, False),
        (Separable("exp", M=[[1.0, 0.0]]), {"G": [[1.0, -1.0]], "h": [0.0]}, False),
        (Separable("exp", M=[[1.0, 0.0]]) + Quadratic(np.diag([0.0, 1.0])), {}, False),
        (Separable("-log", np.ones(3)), {}, True),
        (Separable("-log", np.ones(2)), {"A": [[1.0, -1.0]], "b": [0.0]}, True),
        (Linear(-np.ones(3)) + Separable("-log"), {}, True),
        (LogSumExp(np.eye(3)), {}, True),
        (LogSumExp(np.random.default_rng(2).normal(size=(3, 5))), {}, True),
        (Linear([1.0, 0.0]) + Separable("exp"), {}, True),
        (Linear(2.0 * np.ones(2)) + Separable("pseudo-huber"), {}, True),
    ],
)
def test_an_infimum_that_no_x_attains_is_soon_known(
    objective: Objective, constraints: dict[str, Any], endless: bool
) -> None:
    solution = solve_convex(objective, **constraints)
    assert solution.status is Status.DUAL_INFEASIBLE
    assert solution.iterations <= 60
    assert np.isneginf(solution.objective) == endless
    if "A" in constraints:
        np.testing.assert_allclose(np.asarray(constraints["A"]) @ solution.x, 0.0, atol=1e-8)
    if "G" in constraints:
        assert (np.asarray(constraints["G"]) @ solution.x <= 1e-8).all()


def test_a_minimum_far_away_is_not_taken_for_none() -> None:
    solution = solve_convex(Linear(0.999999 * np.ones(2)) + Separable("pseudo-huber"))
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, -0.999999 / np.sqrt(1.0 - 0.999999**2), rtol=1e-4)
    tilted = solve_convex(Linear([-1e-6]) + Separable("exp", 1.0, [[1.0]]))
    np.testing.assert_allclose(tilted.x, np.log(1e-6), rtol=1e-6)


@pytest.mark.parametrize("kind", ["entropy", "binary entropy", "-log"])
def test_the_time_limit_is_kept_within_one_large_solve(kind: str) -> None:
    rng = np.random.default_rng(0)
    n, m = 400, 250
    inside = rng.uniform(0.1, 0.9, size=n)
    G = rng.normal(size=(m, n))
    solution = solve_convex(
        Linear(100.0 * rng.normal(size=n)) + Separable(kind),
        G=G,
        h=G @ inside,
        ub=inside + 0.05,
        time_limit=0.01,
    )
    assert solution.status is Status.TIME_LIMIT


def test_running_out_of_time_is_not_called_infeasible() -> None:
    program = mapped("entropy", 1)
    solution = solve_convex(program.objective, **program.constraints, time_limit=1e-9)
    assert solution.status is Status.TIME_LIMIT
