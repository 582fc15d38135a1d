"""vmap over the torch layer: nested, with some arguments shared, and around other transforms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from altdiff.torch import QPLayer, _function, solve_qp
from helpers.problems import FIELDS, natural_problem
from torch.func import grad, hessian, jacrev, jvp, vmap

Tensors = dict[str, Any]
TIGHT: Any = {"rtol": 1e-9, "atol": 1e-9}


def problem(seed: int) -> Tensors:
    return {name: torch.tensor(value) for name, value in natural_problem(seed, n=4, m=3, p=1).items()}


def around(value: Any, *batch: int, seed: int = 0) -> Any:
    """A batch of tensors near this one."""
    generator = torch.Generator().manual_seed(seed)
    return value + 0.02 * torch.randn(*batch, *value.shape, dtype=value.dtype, generator=generator)


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, **TIGHT)


@pytest.fixture
def solved_shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The shapes of the fields of every solve."""
    shapes: list[tuple[Any, ...]] = []
    original = _function.solve

    def remember(call: Any, fields: Any) -> Any:
        shapes.append(tuple(None if field is None else tuple(field.shape) for field in fields))
        return original(call, fields)

    monkeypatch.setattr(_function, "solve", remember)
    return shapes


def test_vmap_is_one_solve_in_which_what_is_not_batched_stays_shared(solved_shapes: list[Any]) -> None:
    values = problem(1)
    q = around(values["q"], 5)
    x = vmap(lambda q: QPLayer()(**{**values, "q": q}))(q)
    assert solved_shapes == [((4, 4), (5, 4), (3, 4), (3,), (1, 4), (1,), (4,), (4,))]
    same(x, QPLayer()(**{**values, "q": q}))


def test_in_dims_mix_batched_and_shared_arguments_and_need_not_be_the_first(solved_shapes: list[Any]) -> None:
    values = problem(2)
    q, h, G = around(values["q"], 5).T, around(values["h"], 5), around(values["G"], 5)
    layer = QPLayer()
    arguments = (values["P"], q, G.movedim(0, 1), h, values["A"], values["b"])
    x = vmap(layer, in_dims=(None, 1, 1, 0, None, None))(*arguments)
    assert solved_shapes[0][0] == (4, 4)
    assert solved_shapes[0][2] == (5, 3, 4)
    same(x, layer(values["P"], q.T, G, h, values["A"], values["b"]))


def test_nested_vmaps_share_what_only_one_of_them_batches(solved_shapes: list[Any]) -> None:
    values = problem(3)
    q, h = around(values["q"], 2), around(values["h"], 3)
    layer = QPLayer()

    def x(q: Any, h: Any) -> Any:
        return layer(**{**values, "q": q, "h": h})

    both = vmap(vmap(x, in_dims=(None, 0)), in_dims=(0, None))(q, h)
    assert solved_shapes[0][1] == (2, 1, 4)
    assert solved_shapes[0][3] == (3, 3)
    assert solved_shapes[0][0] == (4, 4)
    for i in range(2):
        for j in range(3):
            same(both[i, j], x(q[i], h[j]))


def test_batches_inside_of_a_vmap_keep_their_dimensions() -> None:
    values = problem(4)
    q, P = around(values["q"], 2, 3), torch.stack([values["P"], 2 * values["P"]])
    x = vmap(lambda P, q: QPLayer()(**{**values, "P": P, "q": q}))(P, q)
    for i in range(2):
        same(x[i], QPLayer()(**{**values, "P": P[i], "q": q[i]}))


def test_the_report_is_batched_like_the_solution() -> None:
    values = problem(5)
    q = around(values["q"], 3)
    q[1] = torch.nan

    def parts(q: Any) -> Any:
        solution = solve_qp(**{**values, "q": q}, on_failure="nan")
        return solution.x, solution.status, solution.degenerate, solution.objective

    x, status, degenerate, objective = vmap(parts)(q)
    assert status.tolist() == [0, 6, 0]
    assert degenerate.shape == objective.shape == (3,)
    assert x[1].isnan().all()
    assert x[::2].isfinite().all()


def test_a_scalar_bound_may_be_batched() -> None:
    values = problem(6)
    bounds = torch.tensor([-0.1, 0.0, 0.1], dtype=torch.float64)
    x = vmap(lambda lb: QPLayer()(values["P"], values["q"], lb=lb))(bounds)
    same(x, torch.stack([QPLayer()(values["P"], values["q"], lb=lb) for lb in bounds]))


@pytest.mark.parametrize("name", FIELDS)
def test_per_sample_gradients_of_every_field_are_those_of_a_loop(name: str) -> None:
    values = problem(7)
    q = around(values["q"], 3)

    def loss(field: Any, q: Any) -> Any:
        return QPLayer()(**{**values, "q": q, name: field}).pow(2).sum()

    ours = vmap(grad(loss), in_dims=(None, 0))(values[name], q)
    same(ours, torch.stack([grad(loss)(values[name], one) for one in q]))


def test_transforms_inside_and_outside_of_vmap_agree_with_a_loop() -> None:
    values = problem(8)
    q = around(values["q"], 3)

    def loss(q: Any, h: Any) -> Any:
        return QPLayer()(**{**values, "q": q, "h": h}).pow(3).sum()

    def batch(q: Any, h: Any) -> Any:
        return vmap(loss, in_dims=(0, None))(q, h)

    h = values["h"]
    same(vmap(hessian(loss), in_dims=(0, None))(q, h), torch.stack([hessian(loss)(one, h) for one in q]))
    same(jacrev(batch, 1)(q, h), torch.stack([grad(loss, 1)(one, h) for one in q]))
    tangent = torch.ones_like(h)
    moved = jvp(lambda h: batch(q, h), (h,), (tangent,))[1]
    same(moved, torch.stack([grad(loss, 1)(one, h) @ tangent for one in q]))
    per_sample = vmap(vmap(hessian(loss, 1), in_dims=(0, None)), in_dims=(None, 0))(
        q, torch.stack([h, 1.01 * h])
    )
    same(per_sample[1, 2], hessian(loss, 1)(q[2], 1.01 * h))


def test_autograd_flows_through_a_vmap() -> None:
    values = problem(9)
    q = around(values["q"], 3).requires_grad_()
    shared = values["P"].clone().requires_grad_()
    vmap(lambda q: QPLayer()(**{**values, "P": shared, "q": q}))(q).pow(2).sum().backward()
    ours = (q.grad, shared.grad)
    q.grad = shared.grad = None
    QPLayer()(**{**values, "P": shared, "q": q}).pow(2).sum().backward()
    same(ours, (q.grad, shared.grad))
