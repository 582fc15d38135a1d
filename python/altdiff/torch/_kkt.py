"""The one linear solve behind every derivative, on tensors that hold nothing but numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from altdiff import _layer
from altdiff._fields import POINT
from altdiff._status import Status
from altdiff.torch._problem import require_memory
from altdiff.torch._tensors import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from altdiff._arrays import Array
    from altdiff._layer import Solved


def solve_columns(solved: Solved, columns: int, right_side: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """(V1) for right-hand sides (*batch, *inner, size), where `inner` are `columns` dimensions.

    An instance that failed has what its policy says, and zero for zero, so that a loss may leave it out.
    """
    failed = None if solved.batch.all_solved else solved.report["status"] != Status.SOLVED
    return _by_columns(solved, columns, right_side, lambda own: _solve(solved, failed, own))


def flat_columns(solved: Solved, columns: int, v: Tensor) -> Tensor:
    """(L2) for vectors like x, (*batch, *inner, n)."""
    (flat,) = _by_columns(solved, columns, (v,), lambda own: [_layer.flat_part(solved, own[0])])
    return flat


def _by_columns(
    solved: Solved,
    columns: int,
    vectors: tuple[Tensor, ...],
    apply: Callable[[list[Array]], list[Array]],
) -> tuple[Tensor, ...]:
    """What a map of one vector for each instance makes of several."""
    require_memory(solved)
    batch = solved.batch.problem.layout.batch
    inner = inner_shape(vectors, columns)
    count = math.prod(inner)
    arrays = []
    for part in vectors:
        whole = part.detach().expand(*batch, *inner, part.shape[-1])
        arrays.append(whole.reshape(*batch, count, part.shape[-1]).numpy())
    images = [apply([array[..., i, :] for array in arrays]) for i in range(count)]
    parts = []
    for index, part in enumerate(vectors):
        shape = (*batch, *inner, part.shape[-1])
        own = [to_tensor(image[index]) for image in images]
        parts.append(torch.stack(own, -2).reshape(shape) if own else part.new_zeros(shape))
    return tuple(parts)


def inner_shape(right_side: tuple[Tensor, ...], columns: int) -> torch.Size:
    """The dimensions that hold several vectors for one instance."""
    shapes = [part.shape[part.dim() - 1 - columns : -1] for part in right_side]
    inner: torch.Size = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    return inner


def _solve(solved: Solved, failed: NDArray[np.bool_] | None, right_side: list[Array]) -> list[Array]:
    """(A2) is symmetric, so the adjoint is the tangent along q, -b, -h and minus the active bounds."""
    x, y, z, z_box = right_side
    changes = {"q": x, "b": -y, "h": -z, "lb": -z_box, "ub": -z_box}
    used = solved.batch.problem.layout.used
    moved = _layer.jvp(solved, {name: value for name, value in changes.items() if used[name] is not None})
    solution = [moved[name] for name in POINT]
    if failed is not None:
        silent = failed.copy()
        for part in right_side:
            silent &= (part == 0).all(axis=-1)
        for part in solution:
            part[silent] = 0.0
    return solution
