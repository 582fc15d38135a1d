"""Sparsemax and softmax with limits as autograd functions: a quick one, and one for transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_legacy_batchedtensor
from torch.autograd import forward_ad

from altdiff.torch import _budget_native as native
from altdiff.torch._budget_batching import batch_rows
from altdiff.torch._budget_operator import operated
from altdiff.torch._budget_rules import SolvedRows, pull_back, push_forward
from altdiff.torch._dynamo import hidden
from altdiff.torch._levels import all_forward_levels, primals, save

if TYPE_CHECKING:
    from torch import Tensor

    from altdiff.torch._budget_native import Kind, Limits

    Gradients = tuple[Tensor | None, ...]


@hidden
def call_budget(kind: Kind, y: Tensor, limits: Limits) -> Tensor:
    """x for y (..., n)."""
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return TransformedBudget.apply(kind, y, *limits)[0]  # type: ignore[no-untyped-call,no-any-return]
    if torch._C._len_torch_dispatch_stack() > 0:
        return operated(kind, y, limits)
    return _apply_quick(kind, y, *limits)  # type: ignore[no-any-return]


class QuickBudget(torch.autograd.Function):
    """First derivatives by the core, others by `pull_back`."""

    @staticmethod
    @hidden
    def forward(ctx: Any, kind: Kind, y: Tensor, *limits: Any) -> Tensor:
        """One call of the core."""
        x, states = native.solve(kind, y, limits)
        ctx.kind = kind
        ctx.numbers = [None if isinstance(v, torch.Tensor) else v for v in limits]
        ctx.save_for_backward(x, states, y, *[v for v in limits if isinstance(v, torch.Tensor)])
        return x

    @staticmethod
    @hidden
    def backward(ctx: Any, x_bar: Tensor) -> Gradients:
        """Gradients of what needs one."""
        x, states, y, *given = ctx.saved_tensors
        tensors = iter(given)
        limits: Any = tuple([next(tensors) if v is None else v for v in ctx.numbers])
        needed = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() or _is_transformed(x_bar):
            with torch.no_grad():
                moving, above = native.shares(ctx.kind, y, limits, x, states)
            rows = solved_rows(ctx.kind, x, states, moving, above)
            return (None, *_wanted(pull_back(rows, x_bar), (y, *limits), needed))
        return (None, *native.vjp(ctx.kind, y, limits, x, states, x_bar, needed))


class TransformedBudget(torch.autograd.Function):
    """x, shares and states: for derivatives of any order in both modes, and `vmap`."""

    @staticmethod
    @hidden
    def forward(kind: Kind, y: Tensor, *limits: Any) -> tuple[Tensor, ...]:
        """New tensors."""
        x, states = native.solve(kind, y, limits)
        return (x, *native.shares(kind, y, limits, x, states), states)

    @staticmethod
    @hidden
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps x with its history: second derivatives go through it."""
        x, moving, above, states = output
        ctx.kind = inputs[0]
        ctx.shapes = [v.shape if isinstance(v, torch.Tensor) else None for v in inputs[1:]]
        ctx.mark_non_differentiable(moving, above, states)
        save(ctx, x, moving, above, states)

    @staticmethod
    @hidden
    def backward(ctx: Any, x_bar: Tensor | None, *_: Any) -> Gradients:
        """Gradients of what needs one."""
        if x_bar is None:
            return (None,) * 5
        x, moving, above, states = ctx.saved_tensors
        gradients = pull_back(solved_rows(ctx.kind, x, states, moving, above), x_bar)
        needed = ctx.needs_input_grad[1:]
        return (
            None,
            *[
                gradient.sum_to_size(shape) if need and shape is not None else None
                for gradient, shape, need in zip(gradients, ctx.shapes, needed, strict=True)
            ],
        )

    @staticmethod
    @hidden
    def jvp(ctx: Any, _: None, *dots: Tensor | None) -> tuple[Tensor | None, ...]:
        """The tangent of x."""
        with all_forward_levels():
            x, moving, above, states = primals(ctx.saved_tensors)
            x_dot = push_forward(solved_rows(ctx.kind, x, states, moving, above), *primals(dots))
        return (x_dot, None, None, None)

    @staticmethod
    @hidden
    def vmap(info: Any, dims: tuple[Any, ...], kind: Kind, *values: Any) -> tuple[Any, Any]:
        """More rows."""
        moved = batch_rows(info.batch_size, values, dims[1:])
        return TransformedBudget.apply(kind, *moved), (0, 0, 0, 0)  # type: ignore[no-untyped-call]


def solved_rows(kind: Kind, x: Tensor, states: Tensor, moving: Tensor, above: Tensor) -> SolvedRows:
    """What the rules need to know; where failures raise, all rows are solved."""
    solved = None if kind.on_failure == "raise" else states[..., :1] == 0
    return SolvedRows(kind.softmax, x, moving, above, solved, kind.missing)


def _wanted(gradients: Gradients, values: tuple[Any, ...], needed: tuple[bool, ...]) -> Gradients:
    return tuple(
        [
            native.like(gradient, value) if need else None
            for gradient, value, need in zip(gradients, values, needed, strict=True)
        ]
    )


def _is_transformed(x_bar: Tensor) -> bool:
    """Whether the cotangent is more than numbers in memory."""
    return (
        torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
        or is_legacy_batchedtensor(x_bar)
    )


# `QuickBudget.apply` without the look at its signature, which takes longer than a short row.
_apply_quick: Any = super(torch.autograd.Function, QuickBudget).apply
