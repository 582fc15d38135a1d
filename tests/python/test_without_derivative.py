"""An instance without a derivative stands for itself alone, in dense, sparse and convex batches alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from altdiff import Linear, Quadratic, Status
from altdiff.torch import QPLayer, Sparse

BAD, GOOD = 1, [0, 2]
TRUNCATED = {"method": "alternating", "finish": False}

Data = dict[str, Any]


def huge_cost() -> Data:
    """The middle instance's numbers overflow; the alternating engine has no factor of it."""
    q = np.array([[1.0, -2.0], [1e308, 1.0], [-1.0, 1.0]])
    return {"P": np.eye(2), "q": q, "A": np.array([[1.0, 1.0]]), "b": np.array([1.0])}


def huge_row() -> Data:
    """The middle instance has a row of 1e200, whose square overflows."""
    A = np.array([[[size, size]] for size in (1.0, 1e200, 1.0)])
    return {"P": np.eye(2), "q": np.array([[1.0, -2.0], [1.0, 1.0], [-1.0, 1.0]]), "A": A, "b": np.ones(1)}


def contradiction() -> Data:
    """The middle instance has no feasible point."""
    data = huge_row()
    data["A"] = np.array([[[size, size]] for size in (1.0, 0.0, 1.0)])
    return data


def solve_dense(data: Data, **settings: Any) -> altdiff.Solution:
    return altdiff.solve_qp(**data, **settings)


def solve_sparse(data: Data, **settings: Any) -> altdiff.Solution:
    made: Data = {}
    for name, value in data.items():
        stack = name in ("P", "A") and np.ndim(value) == 3
        matrices = [sp.csc_matrix((np.ravel(v), [0, 0], [0, 1, 2])) for v in value] if stack else None
        made[name] = matrices or (sp.csc_matrix(value) if name in ("P", "A") else value)
    return altdiff.solve_qp(**made, **settings)


def part(data: Data, instances: list[int]) -> Data:
    batched = {"P": 3, "q": 2, "A": 3, "b": 2}
    return {name: v[instances] if np.ndim(v) == batched[name] else v for name, v in data.items()}


CASES = [
    pytest.param(solve, make, settings, id=f"{solve.__name__}-{make.__name__}")
    for solve in (solve_dense, solve_sparse)
    for make, settings in ((huge_cost, TRUNCATED), (huge_row, {}), (contradiction, {}))
]


@pytest.mark.parametrize(("solve", "make", "settings"), CASES)
def test_the_derivatives_of_the_others_are_as_without_it(
    solve: Callable[..., altdiff.Solution], make: Callable[[], Data], settings: Data
) -> None:
    together, others = solve(make(), **settings), solve(part(make(), GOOD), **settings)
    assert together.status[BAD] != Status.SOLVED
    bar = np.array([[1.0, 2.0], [3.0, 4.0], [-1.0, 0.5]])
    np.testing.assert_allclose(together.vjp(bar).q[GOOD], others.vjp(bar[GOOD]).q, atol=1e-12)
    np.testing.assert_allclose(together.jvp(q=bar).x[GOOD], others.jvp(q=bar[GOOD]).x, atol=1e-12)
    np.testing.assert_allclose(together.jacobian("q")[GOOD], others.jacobian("q"), atol=1e-12)
    # What is shared: the sum, without the instance where nothing flows into it.
    bar[BAD] = 0.0
    np.testing.assert_allclose(together.vjp(bar).b, others.vjp(bar[GOOD]).b, atol=1e-12)


@pytest.mark.parametrize(("solve", "make", "settings"), CASES)
def test_vjp_jvp_and_jacobian_agree_on_who_has_a_derivative(
    solve: Callable[..., altdiff.Solution], make: Callable[[], Data], settings: Data
) -> None:
    solution = solve(make(), **settings)
    bar = np.ones((3, 2))
    known = [
        np.isfinite(solution.vjp(bar).q).all(axis=-1),
        np.isfinite(solution.jvp(q=bar).x).all(axis=-1),
        np.isfinite(solution.jacobian("q")).all(axis=(-2, -1)),
    ]
    assert all(flags[GOOD].all() for flags in known)
    assert len({bool(flags[BAD]) for flags in known}) == 1
    assert np.isfinite(solution.vjp(bar).b).all() == known[0][BAD]  # the sum has what it is a sum of


def test_without_a_factor_dense_and_sparse_say_nan_alike() -> None:
    for solve in (solve_dense, solve_sparse):
        solution = solve(huge_cost(), **TRUNCATED)
        assert solution.status[BAD] == Status.NUMERICAL_ERROR
        assert np.isnan(solution.vjp(np.ones((3, 2))).q[BAD]).all()
        assert np.isnan(solution.jvp(b=np.ones(1)).x[BAD]).all()
        assert np.isnan(solution.jacobian("b")[BAD]).all()


def test_a_convex_batch_means_the_same() -> None:
    data = contradiction()

    def solve(instances: list[int]) -> altdiff.ConvexSolution:
        objective = Quadratic(data["P"]) + Linear(data["q"][instances])
        return altdiff.solve_convex(objective, A=data["A"][instances], b=data["b"])

    together, others = solve([0, BAD, 2]), solve(GOOD)
    bar = np.array([[1.0, 2.0], [3.0, 4.0], [-1.0, 0.5]])
    ours, theirs = together.vjp(bar).objective[1]["q"], others.vjp(bar[GOOD]).objective[1]["q"]
    assert ours is not None
    assert theirs is not None
    np.testing.assert_allclose(ours[GOOD], theirs, atol=1e-12)
    assert np.isnan(ours[BAD]).all()
    assert np.isnan(together.jacobian("b")[BAD]).all()
    np.testing.assert_allclose(together.jacobian("b")[GOOD], others.jacobian("b"), atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("make", [huge_row, contradiction])
def test_under_zero_a_shared_sum_is_that_of_the_solved(sparse: bool, make: Callable[[], Data]) -> None:
    def gradient(instances: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        data = {name: torch.tensor(value) for name, value in part(make(), instances).items()}
        P = data.pop("P").requires_grad_()
        data["q"].requires_grad_()
        field = Sparse(sp.eye_array(2), P.diagonal()) if sparse else P
        (QPLayer(on_failure="zero")(field, **data) ** 2).sum().backward()
        assert P.grad is not None
        assert data["q"].grad is not None
        return P.grad.diagonal(), data["q"].grad

    (P_bar, q_bar), (P_others, q_others) = gradient([0, BAD, 2]), gradient(GOOD)
    torch.testing.assert_close(P_bar, P_others, rtol=0, atol=1e-12)
    torch.testing.assert_close(q_bar[GOOD], q_others, rtol=0, atol=1e-12)
    assert bool((q_bar[BAD] == 0).all())
