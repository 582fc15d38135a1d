"""A sparse matrix for each instance of a batch: one pattern, and values of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from altdiff._arrays import is_sparse, on_pattern, sparse_matrix

if TYPE_CHECKING:
    from altdiff._arrays import Array, Block


@dataclass(frozen=True)
class SparseStack:
    """Several csc matrices with the same stored entries."""

    pattern: Block  # the first of them
    data: Array  # the stored entries of each, in the order of the pattern

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array with batch dimensions."""
        return (*self.data.shape[:-1], *self.pattern.shape)

    @property
    def ndim(self) -> int:
        """Dimensions, of the batch and two."""
        return len(self.shape)

    def __getitem__(self, index: tuple[int, ...]) -> Block:
        """One of the matrices."""
        return on_pattern(self.pattern, self.data[index])

    def matrices(self) -> list[Block]:
        """All of them, where the batch has one dimension."""
        return [self[(i,)] for i in range(len(self.data))]


def is_list_of_sparse(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether this is a list of scipy.sparse matrices."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(is_sparse, value))


def stack_of(name: str, matrices: list[Any] | tuple[Any, ...]) -> SparseStack:
    """The matrices in one; ValueError if their patterns differ."""
    stacked = [sparse_matrix(name, matrix) for matrix in matrices]
    first = stacked[0]
    for i, other in enumerate(stacked):
        if other.shape != first.shape:
            raise ValueError(f"{name}[{i}] has shape {other.shape}, but {name}[0] has {first.shape}")
        same = np.array_equal(other.indptr, first.indptr) and np.array_equal(other.indices, first.indices)
        if not same:
            raise ValueError(
                f"{name}[{i}] and {name}[0] store different entries: in a batch all must store the same "
                "ones; store zeros where one of them lacks an entry"
            )
    return SparseStack(first, np.stack([matrix.data for matrix in stacked]))
