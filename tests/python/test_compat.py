"""The layers with other libraries' signatures: their conventions, and gradients of every argument."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import altdiff
import numpy as np
import pytest
import torch
from altdiff.compat import proxsuite, qpth
from altdiff.torch import QPLayer
from helpers.compat_problems import gradients, one_sided, two_sided

EMPTY = torch.Tensor()


@pytest.mark.parametrize("batched", ["Q p G h A b", "p", "Q b", "G h", "A"])
def test_qpth_gives_the_values_and_gradients_of_the_layer(batched: str) -> None:
    arguments = one_sided(1, batch=3, batched=batched)
    Q, p, G, h, A, b = arguments
    x = qpth.QPFunction(shared_gradient="sum")(Q, p, G, h, A, b)
    expected = QPLayer()(Q, p, G, h, A, b)
    assert torch.equal(x, expected)
    for ours, theirs in zip(gradients(x, arguments), gradients(expected, arguments), strict=True):
        assert torch.equal(ours, theirs)


def test_qpth_gives_the_mean_gradient_of_what_instances_share() -> None:
    arguments = one_sided(2, batch=3, batched="p b")
    mean = gradients(qpth.QPFunction()(*arguments), arguments)
    total = gradients(qpth.QPFunction(shared_gradient="sum")(*arguments), arguments)
    for i, (ours, theirs) in enumerate(zip(mean, total, strict=True)):
        own = i in (1, 5)
        torch.testing.assert_close(ours if own else 3 * ours, theirs, rtol=1e-12, atol=0)


def test_qpth_satisfies_gradcheck_in_every_argument() -> None:
    arguments = one_sided(3, batch=2)
    function = qpth.QPFunction(verbose=-1)
    assert torch.autograd.gradcheck(lambda *v: function(*v), arguments, eps=1e-6, atol=1e-6, rtol=1e-5)


def test_proxsuite_satisfies_gradcheck_in_every_argument_and_output() -> None:
    # Differences of infinite limits make no sense: the row without a lower limit gets a far one.
    arguments = two_sided(4, batch=2, batched="Q p A b u")
    arguments[5] = arguments[5].detach().clamp(min=-50.0).requires_grad_()
    function = proxsuite.QPFunction()
    assert torch.autograd.gradcheck(lambda *v: tuple(function(*v)), arguments, eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("batch", [0, 3])
def test_proxsuite_satisfies_its_optimality_conditions(batch: int) -> None:
    Q, p, A, b, G, low, u = (v.detach() for v in two_sided(5, batch))
    x, lams, nus = proxsuite.QPFunction()(Q, p, A, b, G, low, u)
    assert x.shape == (max(batch, 1), 5)
    assert lams.shape == (max(batch, 1), 2)
    assert nus.shape == (max(batch, 1), 4)
    stationarity = Q @ x[..., None] + A.mT @ lams[..., None] + G.mT @ nus[..., None]
    assert (stationarity[..., 0] + p).abs().max() < 1e-9
    Gx = (G @ x[..., None])[..., 0]
    assert ((A @ x[..., None])[..., 0] - b).abs().max() < 1e-9
    assert (Gx - u).max() < 1e-9
    assert (low - Gx).max() < 1e-9
    assert (nus.clamp(min=0) * (u - Gx)).abs().max() < 1e-9
    assert (nus.clamp(max=0) * (Gx - low)).abs().max() < 1e-9
    assert (nus > 0.1).any()
    assert (nus < -0.1).any()


def infeasible(seed: int) -> list[Any]:
    """Two instances, the first without and the second with a feasible x; rows in general position."""
    generator = torch.Generator().manual_seed(seed)
    A, G = (torch.randn(rows, 3, generator=generator, dtype=torch.float64) for rows in (2, 5))
    Q, p = torch.eye(3, dtype=torch.float64), torch.randn(3, generator=generator, dtype=torch.float64)
    b = torch.zeros(2, dtype=torch.float64)
    low = torch.tensor([[1.0, 1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0, -2.0]], dtype=torch.float64)
    return [v.requires_grad_() for v in (Q, p, A, b, G, low, (low + 2).detach())]


def test_the_closest_feasible_problem_moves_the_limits_as_little_as_possible() -> None:
    arguments = infeasible(1)
    Q, p, A, b, G, low, u = arguments
    with pytest.raises(altdiff.SolveError):
        proxsuite.QPFunction()(Q, p, A, b, G, low, u)
    x, lams, nus, s_e, s_i = proxsuite.QPFunction(structural_feasibility=False)(*arguments)
    assert (x @ A.T - b - s_e).abs().max() < 1e-9
    Gx = x @ G.T
    assert (Gx - u - s_i.clamp(min=0)).max() < 1e-9
    assert (low + s_i.clamp(max=0) - Gx).max() < 1e-9
    assert (x @ Q + p + lams @ A + nus @ G).abs().max() < 1e-8
    # The smallest shift: its gradient with respect to x, by the rows that it moves, is zero.
    assert s_e[0].norm() + s_i[0].norm() > 0.1
    assert (s_e @ A + s_i @ G).abs().max() < 1e-8
    exact = proxsuite.QPFunction()(Q, p, A, b, G, low[1], u[1])
    assert torch.allclose(x[1], exact[0][0], rtol=0, atol=1e-12)
    assert not s_e[1].any()
    assert not s_i[1].any()


def test_the_closest_feasible_problem_satisfies_gradcheck() -> None:
    function = proxsuite.QPFunction(structural_feasibility=False)

    def primal(*values: Any) -> Any:
        x, _, _, s_e, s_i = function(*values)
        return x, s_e, s_i

    assert torch.autograd.gradcheck(primal, infeasible(2), eps=1e-6, atol=1e-5, rtol=1e-4)


def test_the_closest_feasible_problem_leaves_other_failures_to_the_policy() -> None:
    Q, p, _, _, G, low, u = infeasible(3)
    unbounded: list[Any] = [torch.zeros_like(Q), p, EMPTY, EMPTY, G[:1], low[:, :1], u[:, :1]]
    with pytest.raises(altdiff.SolveError, match="DUAL_INFEASIBLE"):
        proxsuite.QPFunction(structural_feasibility=False)(*unbounded)
    x, *_ = proxsuite.QPFunction(structural_feasibility=False, on_failure="nan")(*unbounded)
    assert x.isnan().all()


@pytest.mark.parametrize("infinity", [1e20, 1e30, float("inf")])
def test_proxsuite_takes_large_limits_for_none(infinity: float) -> None:
    Q, p, A, b, G, low, u = two_sided(6)
    expected = proxsuite.QPFunction()(Q, p, A, b, G, low, u)
    low = torch.where(low <= -1e20, -infinity, low.detach())
    for ours, theirs in zip(proxsuite.QPFunction()(Q, p, A, b, G, low, u), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_empty_tensors_are_absent_blocks_and_the_output_has_a_batch_dimension() -> None:
    Q, p, G, h, A, b = one_sided(7)
    x = qpth.QPFunction()(Q, p, G, h, EMPTY, EMPTY)
    assert torch.equal(x, QPLayer()(Q, p, G, h)[None])
    assert torch.equal(qpth.QPFunction()(Q, p, EMPTY, EMPTY, A, b), QPLayer()(Q, p, A=A, b=b)[None])
    zhats, lams, nus = proxsuite.QPFunction()(Q, p, EMPTY, EMPTY, G, h - 9, h)
    assert torch.allclose(zhats, x, rtol=0, atol=1e-12)
    assert lams.shape == (1, 0)
    assert nus.shape == (1, 4)
    zhats, lams, nus = proxsuite.QPFunction()(Q, p, A, b, EMPTY, EMPTY, EMPTY)
    assert lams.shape == (1, 2)
    assert nus.shape == (1, 0)


def test_a_batch_of_zero_instances_is_answered() -> None:
    arguments = one_sided(8)
    arguments[1] = torch.zeros(0, 5, dtype=torch.float64, requires_grad=True)
    x = qpth.QPFunction()(*arguments)
    assert x.shape == (0, 5)
    gradient, *_ = torch.autograd.grad(x.sum(), arguments)
    assert torch.equal(gradient, torch.zeros(5, 5, dtype=torch.float64))


def test_the_type_is_that_of_the_tensors() -> None:
    Q, p, G, h, A, b = (value.detach().float().requires_grad_() for value in one_sided(9))
    assert qpth.QPFunction()(Q, p, G, h, A, b).dtype == torch.float32
    assert all(part.dtype == torch.float32 for part in proxsuite.QPFunction()(Q, p, A, b, G, h - 9, h))


def test_options_of_other_algorithms_are_accepted_in_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = one_sided(10)
    expected = qpth.QPFunction()(*arguments)
    function = qpth.QPFunction(1e-10, -1, 5, 30, qpth.QPSolvers.CVXPY, False)
    assert torch.equal(function(*arguments), expected)
    limits = two_sided(10)
    assert torch.equal(
        proxsuite.QPFunction(1e-7, 50, 1e-3, 1e-5, 1e-5, True, True)(*limits)[0],
        proxsuite.QPFunction()(*limits)[0],
    )
    assert capfd.readouterr().out == ""


def test_options_that_mean_the_same_are_passed_on() -> None:
    assert qpth.QPFunction(eps=1e-4, verbose=1).layer.settings == {"tolerance": 1e-4, "verbose": True}
    assert qpth.QPFunction().layer.settings == {"tolerance": 1e-8, "verbose": False}
    assert proxsuite.QPFunction(eps=1e-5).layer.settings == {"tolerance": 1e-5}


def test_a_matrix_that_is_not_positive_definite_is_refused_if_asked() -> None:
    _, p, G, h, A, b = one_sided(12)
    singular = torch.diag(torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64))
    with pytest.raises(RuntimeError, match="Q is not SPD"):
        qpth.QPFunction()(singular, p, G, h, A, b)
    Gs, hs = torch.cat([G, torch.eye(5)]), torch.cat([h, torch.full((5,), 9.0)])
    Gs, hs = torch.cat([Gs, -torch.eye(5)]), torch.cat([hs, torch.full((5,), 9.0)])
    assert qpth.QPFunction(check_Q_spd=False)(singular, p, Gs, hs, A, b).isfinite().all()


def test_an_instance_without_solution_is_an_error_or_marked() -> None:
    Q, p = torch.eye(1, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64)
    G = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    h = torch.tensor([[1.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    with pytest.raises(altdiff.SolveError, match="instance 1: PRIMAL_INFEASIBLE"):
        qpth.QPFunction()(Q, p, G, h, EMPTY, EMPTY)
    x = qpth.QPFunction(on_failure="nan")(Q, p, G, h, EMPTY, EMPTY)
    assert x[0].isfinite().all()
    assert x[1].isnan().all()
    with pytest.raises(altdiff.SolveError):
        proxsuite.QPFunction()(Q, p, EMPTY, EMPTY, G, -h - 9, h)


@pytest.mark.parametrize(
    ("position", "value", "kind", "message"),
    [
        (
            1,
            torch.zeros(4),
            ValueError,
            r"p must have shape \(n,\) or \(B, n\), got \(4,\): Q says that n = 5",
        ),
        (2, torch.zeros(2, 2, 4, 5), ValueError, r"G must have shape \(m, n\) or \(B, m, n\), got"),
        (3, EMPTY, ValueError, "h is empty, but G is given"),
        (4, np.zeros((2, 5)), TypeError, "A must be a tensor, got ndarray"),
        (5, torch.zeros(3, 2), ValueError, r"b must have shape .*: p says that B = 2"),
    ],
)
def test_a_wrong_argument_is_named_as_the_caller_knows_it(
    position: int, value: Any, kind: type[Exception], message: str
) -> None:
    arguments = one_sided(13, batch=2, batched="p")
    arguments[position] = value
    with pytest.raises(kind, match=message):
        qpth.QPFunction()(*arguments)


def test_a_wrong_option_is_an_error_when_the_function_is_made() -> None:
    with pytest.raises(ValueError, match="solver must be one of PDIPM_BATCHED, CVXPY"):
        qpth.QPFunction(solver="OSQP")
    with pytest.raises(ValueError, match="shared_gradient must be one of mean, sum"):
        qpth.QPFunction(shared_gradient="max")
    with pytest.raises(ValueError, match="on_failure must be one of"):
        proxsuite.QPFunction(on_failure="ignore")


@pytest.mark.parametrize("function", [qpth.QPFunction(), proxsuite.QPFunction()])
def test_the_functions_survive_copy_and_pickle(function: Any) -> None:
    arguments = one_sided(14) if isinstance(function, qpth.QPFunction) else two_sided(14)
    for other in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert torch.equal(other(*arguments)[0], function(*arguments)[0])
