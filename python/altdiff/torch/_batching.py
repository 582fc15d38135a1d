"""What `vmap` does to fields and vectors: its dimension goes to the front, and what has none stays shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from altdiff._fields import FIELDS
from altdiff.torch._sparse import ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from altdiff.torch._sparse import Patterns


def batch_fields(
    fields: Sequence[Any], dims: Sequence[int | None], patterns: Patterns | None = None
) -> list[torch.Tensor | Any]:
    """The fields with the new dimension before their batch dimensions, aligned so that they broadcast."""
    q, q_dim = fields[1], dims[1]
    variables = q.shape[-1] if q_dim is None else q.movedim(q_dim, 0).shape[-1]
    depth = max(
        (
            max(0, field.dim() - (dim is not None) - rank)
            for field, dim, rank in zip(fields, dims, ranks(patterns), strict=True)
            if hasattr(field, "dim")
        ),
        default=0,
    )
    return [
        field if dim is None else _aligned(name, field, dim, depth, rank, variables)
        for name, field, dim, rank in zip(FIELDS, fields, dims, ranks(patterns), strict=True)
    ]


def _aligned(name: str, field: Tensor, dim: int, depth: int, rank: int, variables: int) -> Tensor:
    field = field.movedim(dim, 0)
    if name in ("lb", "ub") and field.dim() == 1:  # a scalar bound for each instance
        field = field.unsqueeze(-1).expand(-1, variables)
    missing = depth - max(0, field.dim() - 1 - rank)
    return field.reshape(field.shape[0], *(1,) * missing, *field.shape[1:])


def batch_vectors(
    vectors: Sequence[Tensor], dims: Sequence[int | None], columns: int, own: bool
) -> tuple[list[Tensor], int]:
    """The vectors with the new dimension, and where it is.

    In front if the instances differ along it (`own`); else it holds several vectors for each instance, and is
    the first of the columns.
    """
    depth = max(vector.dim() - (dim is not None) for vector, dim in zip(vectors, dims, strict=True))
    place = 0 if own else depth - 1 - columns
    moved = []
    for vector, dim in zip(vectors, dims, strict=True):
        missing = depth - vector.dim() + (dim is not None)
        if dim is None:
            padded = vector.reshape((1,) * missing + vector.shape)
            moved.append(padded.unsqueeze(place))
        else:
            front = vector.movedim(dim, 0)
            padded = front.reshape(front.shape[0], *(1,) * missing, *front.shape[1:])
            moved.append(padded.movedim(0, place))
    return moved, place
