"""What `vmap` does to fields and vectors: its dimension goes to the front, and what has none stays shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    return batch_tensors(fields, dims, ranks(patterns), variables)


def batch_tensors(
    tensors: Sequence[Any], dims: Sequence[int | None], own_ranks: Sequence[int], variables: int = 0
) -> list[torch.Tensor | Any]:
    """The same for any tensors; `own_ranks` counts the dimensions that one instance's has."""
    depth = max(
        (
            max(0, tensor.dim() - (dim is not None) - rank)
            for tensor, dim, rank in zip(tensors, dims, own_ranks, strict=True)
            if hasattr(tensor, "dim")
        ),
        default=0,
    )
    return [
        tensor if dim is None else _aligned(tensor, dim, depth, rank, variables)
        for tensor, dim, rank in zip(tensors, dims, own_ranks, strict=True)
    ]


def _aligned(tensor: Tensor, dim: int, depth: int, rank: int, variables: int) -> Tensor:
    tensor = tensor.movedim(dim, 0)
    if tensor.dim() <= rank:  # a scalar bound for each instance
        tensor = tensor.unsqueeze(-1).expand(-1, variables)
    missing = depth - max(0, tensor.dim() - 1 - rank)
    return tensor.reshape(tensor.shape[0], *(1,) * missing, *tensor.shape[1:])


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
