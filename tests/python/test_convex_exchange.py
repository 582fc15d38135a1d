"""The quick way of convex layers gives what the long way gives, and leaves to it what it cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from altdiff._fields import CONSTRAINTS
from altdiff._native import core
from altdiff.torch import ConvexLayer, Linear, LogSumExp, Quadratic, Separable, builder, solve_convex
from altdiff.torch import _convex_call as way

Tensors = dict[str, Any]

NO_EXCHANGE = core.SmoothExchange(None, (torch.Tensor,), way._describe)
PARTS = ("x", "y", "z", "z_box", "objective")
MAKE: dict[str, Any] = {
    "entropy": lambda t: Linear(t["q"]) + Separable("entropy", weight=t["w"]),
    "logistic": lambda t: Separable("softplus", M=t["M"], offset=t["o"]) + Quadratic(t["P"], t["q"]),
    "log-sum-exp": lambda t: LogSumExp(t["M"], weight=t["s"]) + Quadratic(t["P"]),
}


def tensors(seed: int, batch: tuple[int, ...] = (), batched: tuple[str, ...] = ()) -> Tensors:
    rng = np.random.default_rng(seed)
    n, m, p, k = 5, 3, 2, 4
    inside = rng.uniform(0.5, 1.0, size=n)
    A, G = rng.normal(size=(p, n)), rng.normal(size=(m, n))
    values = {
        "q": rng.normal(size=n),
        "w": rng.uniform(0.5, 2.0, size=n),
        "M": rng.normal(size=(k, n)),
        "o": rng.normal(size=k),
        "P": np.eye(n),
        "s": np.array(1.5),
        "G": G,
        "h": G @ inside + 0.1,
        "A": A,
        "b": A @ inside,
        "lb": np.zeros(n),
        "ub": np.full(n, 2.0),
    }
    for name in batched:
        values[name] = values[name] + 0.01 * rng.normal(size=(*batch, *values[name].shape))
    return {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}


def outcome(kind: str, values: Tensors, on_failure: str = "raise") -> Tensors:
    """The solution, and the gradients of a loss that all of it enters."""
    constraints = {name: values[name] for name in CONSTRAINTS}
    solution: Any = solve_convex(MAKE[kind](values), **constraints, on_failure=on_failure)
    parts = {name: getattr(solution, name) for name in PARTS}
    loss: Any = sum((i + 1.0) * part.sum() for i, part in enumerate(parts.values()))
    gradients = torch.autograd.grad(loss, list(values.values()), allow_unused=True)
    found = {f"d {name}": value for name, value in zip(values, gradients, strict=True) if value is not None}
    return {**parts, **found}


def is_quick(*arguments: Any) -> bool:
    structure = (Linear(0) + Separable("entropy")).structure
    padded = (*arguments, *(None,) * (1 + len(CONSTRAINTS) - len(arguments)))
    return way.exchange.solve(structure, padded, core.Settings(), 1) is not None


needs_exchange = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch offers no functions in C"
)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("batched", [("q", "s"), ("M", "w", "h"), ("G", "q", "P")])
def test_both_ways_agree_to_the_last_bit(
    kind: str, batch: tuple[int, ...], batched: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = tensors(1, batch, batched)
    quick = outcome(kind, values)
    monkeypatch.setattr(way, "exchange", NO_EXCHANGE)
    slow = outcome(kind, values)
    assert quick.keys() == slow.keys()
    for name, value in slow.items():
        assert torch.equal(quick[name], value), name
        assert quick[name].shape == value.shape


@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_both_ways_treat_a_failed_instance_alike(on_failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = tensors(2, (3,), ("q",))
    values["q"].data[1, 0] = torch.nan
    quick = outcome("entropy", values, on_failure)
    monkeypatch.setattr(way, "exchange", NO_EXCHANGE)
    for name, value in outcome("entropy", values, on_failure).items():
        torch.testing.assert_close(quick[name], value, rtol=0, atol=0, equal_nan=True)


@needs_exchange
def test_usual_tensors_go_the_quick_way_and_parameters_too() -> None:
    q, A, b = torch.ones(2, 3).double(), torch.ones(1, 3).double(), torch.ones(1).double()
    assert is_quick(q, None, None, A, b)
    assert is_quick(torch.nn.Parameter(q), None, None, A, b.requires_grad_())


def test_what_the_core_cannot_read_in_place_goes_the_long_way() -> None:
    q, A, b = torch.ones(3).double(), torch.ones(1, 3).double(), torch.ones(1).double()
    for other in (q.float(), q.numpy(), torch._neg_view(q), q.expand(2, 3).T.expand(3, 2).T):
        assert not is_quick(other, None, None, A, b)
    assert not is_quick(q, None, None, A, b, torch.zeros(()).double())  # a scalar bound


def test_one_layer_tells_objectives_of_the_same_shapes_apart() -> None:
    t = torch.tensor([0.3, 0.6], dtype=torch.float64)
    layer = ConvexLayer(builder(lambda kind: Linear(t) + Separable(kind)))
    for _ in range(2):
        torch.testing.assert_close(layer("square"), -t)
        torch.testing.assert_close(layer("entropy"), torch.exp(-t - 1))


def test_a_shared_number_with_nan_is_named_on_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    values = tensors(5)
    values["w"].data[0] = torch.nan
    for exchange in (way.exchange, NO_EXCHANGE):
        monkeypatch.setattr(way, "exchange", exchange)
        with pytest.raises(ValueError, match=r"Separable\.weight must not hold NaN"):
            outcome("entropy", values, "nan")


def test_a_number_changed_in_place_before_the_backward_pass_is_an_error() -> None:
    values = tensors(4)
    solution: Any = solve_convex(MAKE["logistic"](values), A=values["A"], b=values["b"])
    with torch.no_grad():
        values["M"].mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        solution.x.sum().backward()
