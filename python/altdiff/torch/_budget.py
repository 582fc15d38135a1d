"""`sparsemax` and `softmax` with limits and any total, as functions of torch."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import torch

from altdiff._layer import check_policy
from altdiff.torch._budget_function import call_budget
from altdiff.torch._budget_native import Kind
from altdiff.torch._budget_operator import budget_operator, encode
from altdiff.torch._graph import differentiates
from altdiff.torch._tensors import require_real_numbers, result_type

if TYPE_CHECKING:
    from torch import Tensor

    from altdiff.torch._budget_native import Limit, Limits

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
    given = {"lower": lower, "upper": math.inf if upper is None else upper, "total": total}
    limits = [_checked(name, value) for name, value in given.items()]
    _check_numbers(kind, *limits)
    require_real_numbers("y", y)
    tensors = [value for value in (y, *limits) if isinstance(value, torch.Tensor)]
    dtype = result_type(tensors)
    computed = dtype if dtype in _COMPUTED else torch.float32
    values = [v.to(computed) if isinstance(v, torch.Tensor) else v for v in (y, *limits)]
    arranged, place = _arranged(values, dim)
    x = _solved(kind, arranged[0], (arranged[1], arranged[2], arranged[3]))
    if place is None:
        x = x.squeeze(-1)
    elif place != -1:
        x = x.movedim(-1, place)
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
    tensors = [v if isinstance(v, torch.Tensor) else y.new_full((), v) for v in limits]
    return budget_operator(y, *tensors, encode(kind))[0]


def _checked(name: str, value: Any) -> Limit:
    if isinstance(value, torch.Tensor):
        require_real_numbers(name, value)
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number or a tensor, got {type(value).__name__}")
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"{name} must not be NaN")
    return number


def _check_numbers(kind: Kind, lower: Limit, upper: Limit, total: Limit) -> None:
    """Mistakes that a number alone shows; those of tensors are the status of a row."""
    if not isinstance(total, torch.Tensor) and math.isinf(total):
        raise ValueError("total must be finite")
    if isinstance(lower, torch.Tensor):
        return
    if kind.softmax and lower < 0:
        raise ValueError(f"lower must not be negative for softmax, got {lower}")
    if not isinstance(upper, torch.Tensor) and not lower <= upper:
        raise ValueError(f"lower must not exceed upper, got {lower} and {upper}")


def _arranged(values: list[Any], dim: int) -> tuple[list[Any], int | None]:
    """Rows along the last dimension, limits as the core takes them, and where the dimension was."""
    y, lower, upper, total = values
    if y.dim() == 0 and dim in (-1, 0):
        return [y.unsqueeze(0), lower, upper, total], None
    if not -y.dim() <= dim < y.dim():
        raise IndexError(f"dim must be between {-y.dim()} and {y.dim() - 1}, got {dim}")
    place = dim if dim < 0 else dim - y.dim()
    if isinstance(total, torch.Tensor) and total.dim() > 0:
        total = (
            total.unsqueeze(place)
            if total.dim() >= -place - 1
            else total.reshape(*(1,) * (-place - total.dim()), *total.shape)
        )
    shapes = [v.shape for v in (y, lower, upper, total) if isinstance(v, torch.Tensor)]
    shape = y.shape
    if any(other != shape for other in shapes):
        shape = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
        y = y.expand(shape)
    if place != -1:
        y = y.movedim(place, -1)
    rows = y.shape
    lower, upper = [_limit(v, place, rows) for v in (lower, upper)]
    if isinstance(total, torch.Tensor) and total.dim() > 0:
        total = _full(total, len(rows)).movedim(place, -1).squeeze(-1).expand(rows[:-1])
    return [y, lower, upper, total], place


def _full(value: Tensor, depth: int) -> Tensor:
    return value.reshape((1,) * (depth - value.dim()) + tuple(value.shape))


def _limit(value: Limit, place: int, rows: torch.Size) -> Limit:
    """A number, numbers that all rows share, or all numbers."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    moved = _full(value, len(rows)).movedim(place, -1)
    if all(size == 1 for size in moved.shape[:-1]) and moved.shape[-1] == rows[-1]:
        return moved.reshape(rows[-1:])
    return moved.expand(rows)
