"""Calls of the core for rows with a budget: tensors go by address."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch

from altdiff._budget_layout import native_limit
from altdiff._errors import SolveError
from altdiff._native import core

if TYPE_CHECKING:
    from torch import Tensor

    from altdiff._binding import NativeBudget

    # A number, or a tensor of y's type: one number, one for each entry of a row, or one for each entry of y
    # (of the total: one for each row).
    Limit: TypeAlias = float | Tensor
    Limits: TypeAlias = tuple[Limit, Limit, Limit]  # lower, upper, total

STATE = 4  # numbers that the core keeps of a row; the first is the status


class Kind(NamedTuple):
    """What is asked of a call beside its numbers."""

    softmax: bool
    on_failure: str

    @property
    def missing(self) -> float:
        """What stands for the derivative of a row that has none."""
        return float("nan") if self.on_failure == "nan" else 0.0


def solve(kind: Kind, y: Tensor, limits: Limits) -> tuple[Tensor, Tensor]:
    """x and the states of all rows; y is (..., n), of float32 or float64."""
    memory, own = _in_memory(y, limits)
    x = torch.empty_like(memory)
    states = memory.new_empty((*y.shape[:-1], STATE), dtype=torch.float64)
    if _native(kind, memory, own).solve(x.data_ptr(), states.data_ptr()):
        if kind.on_failure == "raise":
            raise SolveError(states[..., 0].long().numpy(), "budget")
        if kind.on_failure == "zero":
            x[states[..., 0] != 0] = 0
    return x, states


def shares(kind: Kind, y: Tensor, limits: Limits, x: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """How much of each entry moves freely, and with its upper limit."""
    memory, own = _in_memory(y, limits)
    x = x.contiguous()
    moving, above = torch.empty_like(x), torch.empty_like(x)
    states = states.contiguous()
    _native(kind, memory, own).shares(x.data_ptr(), states.data_ptr(), moving.data_ptr(), above.data_ptr())
    return moving, above


def vjp(
    kind: Kind,
    y: Tensor,
    limits: Limits,
    x: Tensor,
    states: Tensor,
    x_bar: Tensor,
    needed: tuple[bool, ...],
) -> list[Tensor | None]:
    """Gradients of y, lower, upper and total where needed, in their shapes."""
    memory, own = _in_memory(y, limits)
    x_bar = x_bar.resolve_neg().contiguous()
    shapes = (y.shape, y.shape, y.shape, y.shape[:-1])
    targets = [x.new_empty(shape) if need else None for shape, need in zip(shapes, needed, strict=True)]
    _native(kind, memory, own).vjp(
        x.data_ptr(),
        states.data_ptr(),
        x_bar.data_ptr(),
        tuple([0 if target is None else target.data_ptr() for target in targets]),  # type: ignore[arg-type]
        kind.missing,
    )
    return [like(target, value) for target, value in zip(targets, (y, *limits), strict=True)]


def like(gradient: Tensor | None, value: Limit) -> Tensor | None:
    """The gradient of a value that was broadcast; None for a number."""
    if gradient is None or not isinstance(value, torch.Tensor):
        return None
    return gradient if gradient.shape == value.shape else gradient.sum_to_size(value.shape)


def _in_memory(y: Tensor, limits: Limits) -> tuple[Tensor, Limits]:
    """Tensors whose numbers lie in C order; they have to live as long as their addresses are used."""
    lower, upper, total = [
        v.detach().resolve_neg().contiguous() if isinstance(v, torch.Tensor) else v for v in limits
    ]
    return y.detach().resolve_neg().contiguous(), (lower, upper, total)


def _native(kind: Kind, y: Tensor, limits: Limits) -> NativeBudget:
    n = y.shape[-1]
    rows = y.shape[:-1].numel()
    lower, upper, total = limits
    return core.BudgetCall(
        y.dtype is torch.float32,
        kind.softmax,
        rows,
        n,
        y.data_ptr(),
        native_limit(lower, _address(lower), y.dim(), n, 1),
        native_limit(upper, _address(upper), y.dim(), n, 1),
        native_limit(total, _address(total), y.dim() - 1, 1, 0),
        torch.get_num_threads(),
    )


def _address(value: Limit) -> int:
    return value.data_ptr() if isinstance(value, torch.Tensor) else 0
