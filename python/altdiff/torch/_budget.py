"""`sparsemax` and `softmax` with limits and any total, as functions of torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from altdiff._budget_layout import Library, arrange, check_numbers, checked_number
from altdiff._layer import check_policy
from altdiff.torch._budget_function import call_budget
from altdiff.torch._budget_native import Kind
from altdiff.torch._budget_operator import operated
from altdiff.torch._graph import differentiates
from altdiff.torch._tensors import require_real_numbers, result_type

if TYPE_CHECKING:
    from torch import Tensor

    from altdiff.torch._budget_native import Limit, Limits

_TORCH = Library("dim", torch.movedim, torch.broadcast_to, torch.broadcast_shapes)
_COMPUTED = (torch.float32, torch.float64)  # other types are computed in float32


def sparsemax(
    y: Tensor,
    upper: float | Tensor | None = None,
    lower: float | Tensor = 0.0,
    total: float | Tensor = 1.0,
    dim: int = -1,
    on_failure: str = "raise",
) -> Tensor:
    """The x closest to y with sum(x) = total and lower <= x <= upper along `dim`.

    `upper` and `lower` are numbers, or tensors that broadcast with y; `total` is a number, or a tensor that
    broadcasts with y without `dim`. All four are differentiable. -inf in y is a masked entry, where x is
    `lower`. `on_failure` says what becomes of rows without a solution: "raise" a SolveError, "nan", or "zero"
    for x and gradients.
    """
    return _budget(Kind(False, on_failure), y, lower, upper, total, dim)


def softmax(
    y: Tensor,
    upper: float | Tensor | None = None,
    lower: float | Tensor = 0.0,
    total: float | Tensor = 1.0,
    dim: int = -1,
    on_failure: str = "raise",
) -> Tensor:
    """The x that minimises -y'x + sum(x log x) with sum(x) = total and lower <= x <= upper along `dim`.

    Without limits it is the usual softmax, times total. The arguments are those of `sparsemax`; lower must
    not be negative.
    """
    return _budget(Kind(True, on_failure), y, lower, upper, total, dim)


def _budget(kind: Kind, y: Tensor, lower: Any, upper: Any, total: Any, dim: int) -> Tensor:
    check_policy(kind.on_failure)
    if not isinstance(y, torch.Tensor):
        raise TypeError(f"y must be a tensor, got {type(y).__name__}")
    limits = [_limit("lower", lower), _limit("upper", math.inf if upper is None else upper)]
    limits.append(_limit("total", total))
    check_numbers(kind.softmax, *limits)
    require_real_numbers("y", y)
    tensors = [value for value in (y, *limits) if isinstance(value, torch.Tensor)]
    dtype = result_type(tensors)
    computed = dtype if dtype in _COMPUTED else torch.float32
    values = [v.to(computed) if isinstance(v, torch.Tensor) else v for v in (y, *limits)]
    rows = arrange(_TORCH, values, dim)
    x = _solved(kind, rows.y, rows[1:4])
    if rows.place is None:
        x = x.reshape(())
    elif rows.place != -1:
        x = x.movedim(-1, rows.place)
    return x.to(dtype)


def _solved(kind: Kind, y: Tensor, limits: Limits) -> Tensor:
    if not torch.compiler.is_compiling():
        return call_budget(kind, y, limits)
    if differentiates():
        torch._dynamo.skip_frame(
            "altdiff.torch cannot be compiled inside forward mode or torch.func.grad, vjp, jvp: "
            "compile without fullgraph=True, or call the transform outside of torch.compile"
        )
        return call_budget(kind, y, limits)
    return operated(kind, y, limits)


def _limit(name: str, value: Any) -> Limit:
    if not isinstance(value, torch.Tensor):
        return checked_number(name, value)
    require_real_numbers(name, value)
    return value
