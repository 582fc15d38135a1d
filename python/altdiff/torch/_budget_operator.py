"""Sparsemax and softmax with limits as operators of torch, for graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from altdiff.torch import _budget_native as native
from altdiff.torch._budget_batching import batch_rows
from altdiff.torch._budget_native import STATE, Kind
from altdiff.torch._budget_rules import SolvedRows, pull_back

if TYPE_CHECKING:
    from torch import Tensor

    from altdiff.torch._budget_native import Limits

_ROWS = "Tensor y, Tensor lower, Tensor upper, Tensor total"


def operated(kind: Kind, y: Tensor, limits: Limits) -> Tensor:
    """x, by the operator."""
    tensors = [v if isinstance(v, torch.Tensor) else y.new_full((), v) for v in limits]
    text = f"{'softmax' if kind.softmax else 'sparsemax'};{kind.on_failure}"
    x: Tensor = budget_operator(y, *tensors, text)[0]
    return x


def _decode(text: str) -> Kind:
    name, on_failure = text.split(";")
    return Kind(name == "softmax", on_failure)


@torch.library.custom_op(
    "altdiff::budget", mutates_args=(), schema=f"({_ROWS}, str kind) -> (Tensor, Tensor)"
)
def budget_operator(*arguments: Any) -> tuple[Tensor, Tensor]:
    """x, and the states of the rows."""
    y, lower, upper, total, text = arguments
    return native.solve(_decode(text), y, (lower, upper, total))


@torch.library.custom_op(
    "altdiff::budget_shares",
    mutates_args=(),
    schema=f"({_ROWS}, Tensor x, Tensor states, str kind) -> (Tensor, Tensor)",
)
def shares_operator(*arguments: Any) -> tuple[Tensor, Tensor]:
    """How much of each entry moves freely, and with its upper limit."""
    y, lower, upper, total, x, states, text = arguments
    return native.shares(_decode(text), y, (lower, upper, total), x, states)


@budget_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    y = arguments[0]
    return y.new_empty(y.shape), y.new_empty((*y.shape[:-1], STATE), dtype=torch.float64)


@shares_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    y = arguments[0]
    return y.new_empty(y.shape), y.new_empty(y.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.text = inputs[-1]
    ctx.save_for_backward(*inputs[:-1], *output)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, x_bar: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    y, lower, upper, total, x, states = ctx.saved_tensors
    kind = _decode(ctx.text)
    constants = [v.detach() for v in ctx.saved_tensors]
    moving, above = shares_operator(*constants, ctx.text)
    solved = None if kind.on_failure == "raise" else states[..., :1] == 0
    rows = SolvedRows(kind.softmax, x, moving, above, solved, kind.missing)
    gradients = pull_back(rows, x_bar)
    needed = ctx.needs_input_grad
    return (
        *[
            native.like(gradient, value) if need else None
            for gradient, value, need in zip(gradients, (y, lower, upper, total), needed, strict=False)
        ],
        None,
    )


def _vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    moved = batch_rows(info.batch_size, arguments[:4], dims[:4])
    return budget_operator(*moved, arguments[-1]), (0, 0)


def _shares_vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    moved = batch_rows(info.batch_size, arguments[:4], dims[:4])
    x, states = [
        value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)
        for value, dim in zip(arguments[4:6], dims[4:6], strict=True)
    ]
    return shares_operator(*moved, x, states, arguments[-1]), (0, 0)


budget_operator.register_autograd(_backward, setup_context=_save)
if hasattr(budget_operator, "register_vmap"):  # since torch 2.5
    budget_operator.register_vmap(_vmap)
    shares_operator.register_vmap(_shares_vmap)
