"""The quick way of the torch layer gives what the long way gives, and leaves to it what it cannot do."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import torch
from altdiff._native import core
from altdiff.torch import QPLayer, _function, _problem, solve_qp
from helpers.problems import FIELDS, POINT, natural_problem

Tensors = dict[str, Any]

NO_EXCHANGE = core.TensorExchange(None, (torch.Tensor,), _problem._describe)


def tensors(seed: int, batch: tuple[int, ...] = (), batched: tuple[str, ...] = ()) -> Tensors:
    rng = np.random.default_rng(seed)
    data = natural_problem(seed, n=5, m=4, p=2)
    for name in batched:
        data[name] = data[name] + 0.01 * rng.normal(size=(*batch, *data[name].shape))
    return {name: torch.tensor(value, requires_grad=True) for name, value in data.items()}


def outcome(values: Tensors, on_failure: str = "raise") -> Tensors:
    """The solution, and the gradients of a loss that all of it enters."""
    solution = solve_qp(**values, on_failure=on_failure)
    parts = {name: getattr(solution, name) for name in (*POINT, "objective")}
    loss: Any = sum((i + 1.0) * part.sum() for i, part in enumerate(parts.values()))
    wanted = [name for name in FIELDS if name in values and values[name].requires_grad]
    gradients = torch.autograd.grad(loss, [values[name] for name in wanted])
    return {**parts, **dict(zip(wanted, gradients, strict=True))}


def is_quick(*fields: Any) -> bool:
    padded = (*fields, *(None,) * (len(FIELDS) - len(fields)))
    return _problem.exchange.solve(padded, core.Settings(), 1) is not None


needs_exchange = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch offers no functions in C"
)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("batched", [("q",), ("q", "h", "b"), ("G", "q")])
def test_both_ways_agree_to_the_last_bit(
    batch: tuple[int, ...], batched: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = tensors(1, batch, batched)
    quick = outcome(values)
    monkeypatch.setattr(_function, "exchange", NO_EXCHANGE)
    for name, value in outcome(values).items():
        assert torch.equal(quick[name], value), name
        assert quick[name].shape == value.shape


@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_both_ways_treat_a_failed_instance_alike(on_failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = tensors(2, (3,), ("q",))
    values["q"].data[1, 0] = torch.nan
    quick = outcome(values, on_failure)
    monkeypatch.setattr(_function, "exchange", NO_EXCHANGE)
    for name, value in outcome(values, on_failure).items():
        torch.testing.assert_close(quick[name], value, rtol=0, atol=0, equal_nan=True)


@needs_exchange
def test_usual_tensors_go_the_quick_way_and_parameters_too() -> None:
    P, q = torch.eye(3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    assert is_quick(P, q)
    assert is_quick(torch.nn.Parameter(P), q.requires_grad_())


def test_what_the_core_cannot_read_in_place_goes_the_long_way() -> None:
    class Subclass(torch.Tensor):
        pass

    P, q = torch.eye(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    for other in (
        P.float(),
        P.numpy(),
        P.to_sparse(),
        P.to("meta"),
        P.flip(0)[:, ::2].expand(3, 2),
        torch._neg_view(P),
        torch._efficientzerotensor(3, 3, dtype=torch.float64),
        P.as_subclass(Subclass),
    ):
        assert not is_quick(other, q)
    assert not is_quick(P, q, None, None, None, None, torch.zeros((), dtype=torch.float64))  # a scalar bound


def test_numbers_that_stand_for_their_opposites_are_read_right() -> None:
    P, q = torch.eye(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(QPLayer()(P, torch._neg_view(q)), q)


def test_a_gradient_becomes_the_tensors_own_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def pull_back(*arguments: Any) -> Any:
        gradients = original(*arguments)
        made.extend(value.data_ptr() for value in gradients if value is not None)
        return gradients

    original = _function.pull_back
    monkeypatch.setattr(_function, "pull_back", pull_back)
    values = tensors(3)
    QPLayer()(**values).sum().backward()
    assert [value.grad.data_ptr() for value in values.values()] == made


def test_a_field_changed_in_place_before_the_backward_pass_is_an_error() -> None:
    values = tensors(4)
    x = QPLayer()(**values)
    with torch.no_grad():
        values["G"].mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_a_shared_array_with_nan_is_named_on_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    values = tensors(5)
    values["h"].data[0] = torch.nan
    for exchange in (_problem.exchange, NO_EXCHANGE):
        monkeypatch.setattr(_function, "exchange", exchange)
        with pytest.raises(ValueError, match="h must not hold NaN"):
            QPLayer(on_failure="nan")(**values)


def test_many_shapes_in_turn_are_told_apart() -> None:
    layer = QPLayer()
    for _ in range(2):
        for n in range(1, 81):
            q = torch.arange(1.0, n + 1, dtype=torch.float64)
            assert torch.equal(layer(torch.eye(n, dtype=torch.float64), q), -q)


def test_tensors_outlive_the_layer_and_what_it_solved() -> None:
    values = tensors(6)
    x = QPLayer()(**values)
    x.sum().backward()
    kept = {name: value.grad for name, value in values.items()}
    expected = altdiff.solve_qp(**{name: value.detach().numpy() for name, value in values.items()})
    del values
    gradient = expected.vjp(np.ones(5))
    for name, value in kept.items():
        np.testing.assert_array_equal(value.numpy(), getattr(gradient, name))


def test_the_gradient_of_a_transform_is_that_of_backward() -> None:
    values = tensors(7)
    layer = QPLayer()
    layer(**values).pow(2).sum().backward()
    constant = {name: value.detach() for name, value in values.items()}
    gradient = torch.func.grad(lambda q: layer(**{**constant, "q": q}).pow(2).sum())(constant["q"])
    assert torch.equal(gradient, values["q"].grad)
