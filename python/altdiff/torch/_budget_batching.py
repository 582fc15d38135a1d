"""What `vmap` does to rows and limits: its dimension becomes the first of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def batch_rows(size: int, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """y, lower, upper and total with the new dimension in front where they have it."""
    y, *limits = [
        value if dim is None else value.movedim(dim, 0) for value, dim in zip(values, dims, strict=True)
    ]
    if dims[0] is None:
        y = y.expand(size, *y.shape)
    batched = [dim is not None for dim in dims[1:]]
    lower, upper = [_aligned(limit, new, y.shape) for limit, new in zip(limits[:2], batched[:2], strict=True)]
    return [y, lower, upper, _aligned(limits[2], batched[2], y.shape[:-1])]


def _aligned(limit: Any, batched: bool, shape: torch.Size) -> Any:
    """A limit as rows of `shape` take it: a number, numbers that all rows share, or all numbers."""
    if not isinstance(limit, torch.Tensor):
        return limit
    if batched:
        missing = len(shape) - limit.dim()
        full: Tensor = limit.reshape(limit.shape[0], *(1,) * missing, *limit.shape[1:])
        return full.expand(shape)
    is_own = limit.dim() == len(shape) - 1 and limit.dim() > 1
    return limit.expand(shape) if is_own else limit
