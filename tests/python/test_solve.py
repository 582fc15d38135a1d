"""Solutions satisfy the optimality conditions, whatever the form of the data."""

from __future__ import annotations

import os

import altdiff
import numpy as np
import pytest
from altdiff import Status
from helpers.problems import POINT, Data, as_sparse, kkt_error, known_problem, natural_problem


def sizes(seed: int) -> tuple[int, int, int]:
    """A random n, m and p with fewer equalities than variables."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    return n, int(rng.integers(0, 2 * n)), int(rng.integers(0, (n + 1) // 2))


@pytest.mark.parametrize("seed", range(50))
def test_the_optimality_conditions_hold_and_dense_equals_sparse(seed: int) -> None:
    known = known_problem(seed, *sizes(seed), bounds=seed % 2 == 0, density=0.5)
    solution = altdiff.solve_qp(**known.data)
    assert solution.status is Status.SOLVED
    assert kkt_error(known.data, solution) < 1e-8
    sparse = altdiff.solve_qp(**as_sparse(known.data))
    for name in POINT:
        np.testing.assert_allclose(getattr(solution, name), getattr(known, name), atol=1e-8)
        np.testing.assert_allclose(getattr(sparse, name), getattr(solution, name), atol=1e-9)


@pytest.mark.parametrize("seed", range(100, 150))
def test_the_optimality_conditions_hold_when_the_active_set_is_left_to_chance(seed: int) -> None:
    data = natural_problem(seed, *sizes(seed))
    solution = altdiff.solve_qp(**data)
    assert solution.status is Status.SOLVED
    assert kkt_error(data, solution) < 1e-8
    sparse = altdiff.solve_qp(**as_sparse(data))
    assert sparse.status is Status.SOLVED
    np.testing.assert_allclose(sparse.x, solution.x, atol=1e-9)


def test_the_report_agrees_with_the_data() -> None:
    known = known_problem(seed=1, n=6, m=4, p=2)
    solution = altdiff.solve_qp(**known.data)
    P, q = known.data["P"], known.data["q"]
    assert solution.objective == pytest.approx(0.5 * known.x @ P @ known.x + q @ known.x, abs=1e-9)
    for residual in (solution.primal_residual, solution.dual_residual, solution.duality_gap):
        assert 0 <= residual <= 1e-8
    assert isinstance(solution.iterations, int)
    assert solution.iterations > 0
    assert solution.unique is True
    assert solution.degenerate is False
    assert solution.margin > 1e-3


def test_a_weakly_active_row_is_reported_as_degenerate() -> None:
    solution = altdiff.solve_qp([[1.0]], [0.0], [[1.0]], [0.0])
    assert solution.status is Status.SOLVED
    assert solution.degenerate is True
    assert solution.margin < 1e-8


@pytest.mark.parametrize("method", ["auto", "alternating"])
def test_every_method_solves(method: str) -> None:
    known = known_problem(seed=2, n=8, m=6, p=2)
    solution = altdiff.solve_qp(**known.data, method=method)
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, known.x, atol=1e-8)


def batch_of(count: int, n: int = 5, m: int = 4, p: int = 2) -> tuple[Data, list[Data]]:
    """Instances, stacked and one by one."""
    instances = [natural_problem(seed, n, m, p) for seed in range(count)]
    return {name: np.stack([data[name] for data in instances]) for name in instances[0]}, instances


def test_a_batch_equals_a_loop() -> None:
    batch, instances = batch_of(4)
    solution = altdiff.solve_qp(**batch)
    assert solution.x.shape == (4, 5)
    assert solution.status.dtype == np.int64
    for index, data in enumerate(instances):
        one = altdiff.solve_qp(**data)
        assert solution.status[index] == one.status
        for name in (
            *POINT,
            "objective",
            "margin",
        ):  # four tiny instances share a vector, and round otherwise
            np.testing.assert_allclose(getattr(solution, name)[index], getattr(one, name), atol=1e-12)


def test_leading_dimensions_broadcast_as_numpys_do() -> None:
    rng = np.random.default_rng(3)
    data = natural_problem(3, n=4, m=3, p=1)
    data["q"] = rng.normal(size=(2, 1, 4))
    data["h"] = data["h"] + rng.uniform(size=(3, 3))
    data["P"] = data["P"][None]
    solution = altdiff.solve_qp(**data)
    assert solution.x.shape == (2, 3, 4)
    assert solution.z.shape == (2, 3, 3)
    assert solution.objective.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        one = altdiff.solve_qp(**{**data, "P": data["P"][0], "q": data["q"][i, 0], "h": data["h"][j]})
        np.testing.assert_allclose(solution.x[i, j], one.x, atol=1e-13)


def test_sparse_matrices_are_shared_by_a_batch() -> None:
    data = as_sparse(natural_problem(4, n=4, m=3, p=1))
    data["q"] = np.random.default_rng(4).normal(size=(3, 4))
    solution = altdiff.solve_qp(**data)
    for index in range(3):
        np.testing.assert_array_equal(
            solution.x[index], altdiff.solve_qp(**{**data, "q": data["q"][index]}).x
        )


def test_dense_and_sparse_matrices_mix() -> None:
    data = natural_problem(5, n=6, m=4, p=2)
    mixed = {**data, "P": as_sparse(data)["P"]}
    np.testing.assert_allclose(altdiff.solve_qp(**mixed).x, altdiff.solve_qp(**data).x, atol=1e-9)


def test_a_batch_of_zero_instances_works() -> None:
    data = natural_problem(6, n=4, m=3, p=1)
    solution = altdiff.solve_qp(**{**data, "q": np.zeros((0, 4)), "G": np.zeros((0, 3, 4))})
    assert solution.x.shape == (0, 4)
    assert solution.y.shape == (0, 1)
    assert solution.z.shape == (0, 3)
    assert solution.status.shape == (0,)
    gradient = solution.vjp(np.zeros((0, 4)))
    assert gradient.q.shape == (0, 4)
    assert gradient.G.shape == (0, 3, 4)
    np.testing.assert_array_equal(gradient.P, np.zeros((4, 4)))
    assert solution.jvp(h=np.ones(3)).x.shape == (0, 4)
    assert solution.jacobian("b").shape == (0, 4, 1)


@pytest.mark.parametrize(
    "absent", [("A", "b"), ("G", "h"), ("lb", "ub"), ("A", "b", "G", "h"), ("lb",), ("ub",)]
)
def test_any_constraint_block_may_be_absent(absent: tuple[str, ...]) -> None:
    data = {name: value for name, value in natural_problem(7, n=5, m=3, p=2).items() if name not in absent}
    solution = altdiff.solve_qp(**data)
    assert solution.status is Status.SOLVED
    assert kkt_error(data, solution) < 1e-8
    assert solution.y.shape == ((0,) if "A" in absent else (2,))
    assert solution.z.shape == ((0,) if "G" in absent else (3,))
    assert solution.z_box.shape == (5,)


def test_an_unconstrained_problem_is_a_linear_system() -> None:
    known = known_problem(seed=8, n=7, bounds=False)
    solution = altdiff.solve_qp(**known.data)
    np.testing.assert_allclose(solution.x, np.linalg.solve(known.data["P"], -known.data["q"]), atol=1e-9)


def test_an_empty_array_is_an_absent_block() -> None:
    data = natural_problem(9, n=4, m=3, p=1)
    empty = {**data, "A": np.zeros((0, 4)), "b": [], "G": [], "h": np.zeros(0)}
    expected = altdiff.solve_qp(data["P"], data["q"], lb=data["lb"], ub=data["ub"])
    np.testing.assert_array_equal(altdiff.solve_qp(**empty).x, expected.x)


def test_one_variable_works() -> None:
    solution = altdiff.solve_qp([[2.0]], [-6.0], ub=1.0)
    np.testing.assert_allclose(solution.x, [1.0], atol=1e-10)
    np.testing.assert_allclose(solution.z_box, [4.0], atol=1e-9)


def test_a_scalar_bound_holds_for_every_variable() -> None:
    data = natural_problem(10, n=5, m=0, p=0)
    scalar = altdiff.solve_qp(data["P"], data["q"], lb=-0.25, ub=0.25)
    vector = altdiff.solve_qp(data["P"], data["q"], lb=np.full(5, -0.25), ub=np.full(5, 0.25))
    np.testing.assert_array_equal(scalar.x, vector.x)


@pytest.mark.parametrize("sparse", [False, True])
def test_an_infinite_row_or_bound_does_not_exist(sparse: bool) -> None:
    known = known_problem(seed=11, n=5, m=4, p=1)
    data = {**known.data, "h": known.data["h"].copy(), "lb": known.data["lb"].copy()}
    data["h"][known.z == 0] = np.inf
    data["lb"][known.z_box == 0] = -np.inf
    solution = altdiff.solve_qp(**(as_sparse(data) if sparse else data))
    assert solution.status is Status.SOLVED
    for name in POINT:
        np.testing.assert_allclose(getattr(solution, name), getattr(known, name), atol=1e-8)


def test_equal_bounds_fix_a_variable() -> None:
    data = natural_problem(12, n=4, m=0, p=0)
    fixed = {**data, "lb": data["lb"].copy(), "ub": data["ub"].copy()}
    fixed["lb"][1] = fixed["ub"][1] = 0.75
    solution = altdiff.solve_qp(**{name: fixed[name] for name in ("P", "q", "lb", "ub")})
    assert solution.status is Status.SOLVED
    assert solution.x[1] == pytest.approx(0.75, abs=1e-9)


def test_a_solution_is_a_start_for_a_nearby_problem() -> None:
    data = natural_problem(13, n=10, m=10, p=3)
    first = altdiff.solve_qp(**data)
    again = altdiff.solve_qp(**data, initial=first)
    assert again.status is Status.SOLVED
    assert again.iterations <= first.iterations
    np.testing.assert_allclose(again.x, first.x, atol=1e-9)


def test_a_start_may_be_batched_or_shared_by_the_batch() -> None:
    batch, instances = batch_of(3)
    batched = altdiff.solve_qp(**batch)
    one = altdiff.solve_qp(**instances[0])
    for start in (batched, one):
        again = altdiff.solve_qp(**batch, initial=start)
        assert (again.status == Status.SOLVED).all()
        np.testing.assert_allclose(again.x, batched.x, atol=1e-9)


def test_contradictory_constraints_are_reported_as_primal_infeasible() -> None:
    solution = altdiff.solve_qp([[1.0]], [0.0], [[1.0], [-1.0]], [0.0, -1.0])
    assert solution.status is Status.PRIMAL_INFEASIBLE
    z = solution.z
    assert (z >= 0).all()
    assert z @ [0.0, -1.0] < 0
    assert abs(z @ [1.0, -1.0]) < 1e-6 * z.max()


def test_an_unbounded_objective_is_reported_as_dual_infeasible() -> None:
    solution = altdiff.solve_qp([[0.0]], [-1.0], [[-1.0]], [0.0])
    assert solution.status is Status.DUAL_INFEASIBLE
    assert solution.x[0] > 0


def test_a_negative_direction_of_p_is_reported_as_nonconvex() -> None:
    solution = altdiff.solve_qp([[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0], lb=-1.0, ub=1.0)
    assert solution.status is Status.NONCONVEX


def test_a_batch_is_the_same_bit_for_bit_on_one_two_and_four_threads() -> None:
    rng = np.random.default_rng(5)
    own = [natural_problem(seed, n=8, m=6, p=2) for seed in range(40)]
    batch: Data = {name: np.stack([data[name] for data in own]) for name in ("P", "q", "G", "h", "A", "b")}
    x_bar = rng.normal(size=(40, 8))
    solutions = [altdiff.solve_qp(**batch, num_threads=threads) for threads in (1, 2, 4)]
    gradients = [solution.vjp(x_bar) for solution in solutions]
    for solution, gradient in zip(solutions[1:], gradients[1:], strict=True):
        np.testing.assert_array_equal(solution.x, solutions[0].x)
        np.testing.assert_array_equal(gradient.P, gradients[0].P)
        np.testing.assert_array_equal(gradient.A, gradients[0].A)


def test_a_batch_is_solved_in_a_forked_child_after_the_parent_used_threads() -> None:
    q = np.random.default_rng(6).normal(size=(64, 3))
    expected = altdiff.solve_qp(np.eye(3), q, lb=0.0, num_threads=4).x
    child = os.fork()
    if child == 0:
        same = np.array_equal(altdiff.solve_qp(np.eye(3), q, lb=0.0, num_threads=4).x, expected)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("method", ["auto", "interior_point", "alternating"])
@pytest.mark.parametrize("finish", [True, False])
def test_no_residual_and_no_margin_is_minus_zero(method: str, finish: bool) -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        n, m, size = (int(k) for k in rng.integers(1, 5, size=3))
        data: Data = {
            "P": np.eye(n) * rng.integers(0, 3),
            "q": rng.integers(-2, 3, size=(size, n)).astype(float),
            "G": rng.integers(-2, 3, size=(m, n)).astype(float),
            "h": rng.integers(0, 3, size=m).astype(float),
            "lb": -1.0,
        }
        for made in (data, as_sparse(data)):
            solution = altdiff.solve_qp(**made, method=method, finish=finish)
            for name in ("primal_residual", "dual_residual", "duality_gap", "margin"):
                number = getattr(solution, name)
                assert not (np.signbit(number) & (number == 0)).any(), name
