"""Sparse matrices whose stored entries are a tensor: one pattern, and values with gradients."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from altdiff._arrays import is_sparse
from altdiff._extras import require
from altdiff._fields import DIMENSIONS, FIELDS, MATRICES
from altdiff._stack import SparseStack
from altdiff.torch._tensors import as_double

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block
    from altdiff.torch._tensors import Argument

    Patterns: TypeAlias = tuple["Pattern | None", ...]


class Pattern:
    """Where the stored entries of a matrix are, in the order of its owner, and in that of the core."""

    def __init__(self, shape: tuple[int, int], rows: NDArray[Any], columns: NDArray[Any]) -> None:
        self.shape = shape
        self.rows = torch.from_numpy(rows.astype(np.int64))
        self.columns = torch.from_numpy(columns.astype(np.int64))
        self._order = np.lexsort((rows, columns))  # to the core's, which is column after column
        sorted_rows, sorted_columns = rows[self._order], columns[self._order]
        if ((np.diff(sorted_rows) == 0) & (np.diff(sorted_columns) == 0)).any():
            raise ValueError("the sparse matrix stores an entry twice: sum duplicates (coalesce) first")
        self._indices = sorted_rows.astype(np.int32)
        counts = np.bincount(sorted_columns, minlength=shape[1])
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    @property
    def count(self) -> int:
        """How many entries are stored."""
        return len(self.rows)

    @cached_property
    def _back(self) -> NDArray[np.int64]:
        back = np.empty_like(self._order)
        back[self._order] = np.arange(self.count)
        return back

    def matrix(self, values: Array) -> Block:
        """The csc matrix, or for values with batch dimensions the stack of them, as the core takes it."""
        require("scipy", "a sparse P, G or A")
        from scipy.sparse import csc_matrix

        data = values[..., self._order]
        first = data if data.ndim == 1 else np.zeros(self.count)
        csc = csc_matrix((first, self._indices, self._starts), shape=self.shape)
        return csc if data.ndim == 1 else SparseStack(csc, data)

    def entries(self, values: torch.Tensor) -> Entries:
        """The values with their places."""
        return Entries(values, self.rows, self.columns, self.shape)

    def values(self, matrix: Block) -> Array:
        """The stored entries of what `matrix` made, in the owner's order."""
        entries: Array = matrix.data[..., self._back]
        return entries


class Sparse:
    """A sparse P, G or A whose stored entries may have gradients: `Sparse(pattern, values)`.

    `pattern` is a scipy.sparse matrix or a sparse tensor; only where it stores entries matters. `values` are
    (nnz), or (..., nnz) with batch dimensions, in the order in which the pattern stores its entries; by
    default the pattern's own. The pattern is analysed once: `with_values` makes the next one of it.
    """

    def __init__(self, pattern: Any, values: torch.Tensor | None = None) -> None:
        self.pattern, own = _analysed(pattern)
        self.values = own if values is None else values
        _require_values(self.values, self.pattern)

    @property
    def shape(self) -> tuple[int, ...]:
        """As that of the dense matrix."""
        return (*self.values.shape[:-1], *self.pattern.shape)

    def with_values(self, values: torch.Tensor) -> Sparse:
        """Other values on the same pattern."""
        return Sparse(self, values)

    def to_dense(self) -> torch.Tensor:
        """The matrix with its zeros."""
        dense = self.values.new_zeros(self.shape)
        dense[..., self.pattern.rows, self.pattern.columns] = self.values
        return dense


class Entries(NamedTuple):
    """A field, or a change of it, by its stored entries."""

    values: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    shape: tuple[int, int]

    @property
    def mT(self) -> Entries:
        """Transposed, as a tensor's."""
        return Entries(self.values, self.columns, self.rows, self.shape[::-1])


def parted(fields: tuple[Argument | None, ...]) -> tuple[list[Any], Patterns]:
    """The fields with the values in place of sparse ones, and the patterns of these."""
    values: list[Any] = []
    patterns: list[Pattern | None] = []
    for name, field in zip(FIELDS, fields, strict=True):
        if field is None or not has_pattern(field):
            values.append(field)
            patterns.append(None)
            continue
        if name not in MATRICES:
            raise TypeError(f"{name} must be a dense tensor: only P, G and A may be sparse")
        sparse = field if isinstance(field, Sparse) else Sparse(field)
        values.append(sparse.values)
        patterns.append(sparse.pattern)
    return values, tuple(patterns)


def attached(fields: tuple[Any, ...], patterns: Patterns | None) -> tuple[Any, ...]:
    """The fields again, sparse ones as entries on their pattern."""
    if patterns is None:
        return fields
    return tuple(
        value if pattern is None or value is None else pattern.entries(value)
        for value, pattern in zip(fields, patterns, strict=True)
    )


def values_of(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without their patterns."""
    return tuple([field.values if isinstance(field, Entries) else field for field in fields])


def ranks(patterns: Patterns | None) -> list[int]:
    """How many dimensions the tensor of one instance's field has."""
    sparse = patterns or (None,) * len(FIELDS)
    return [
        len(DIMENSIONS[name]) if pattern is None else 1 for name, pattern in zip(FIELDS, sparse, strict=True)
    ]


def has_pattern(field: Argument | None) -> bool:
    """Whether this is a matrix by its stored entries."""
    if isinstance(field, torch.Tensor):
        return field.layout is not torch.strided
    return isinstance(field, Sparse)


def _require_values(values: torch.Tensor, pattern: Pattern) -> None:
    if values.dim() == 0 or values.shape[-1] != pattern.count:
        raise ValueError(
            f"values must have shape (..., nnz) with nnz = {pattern.count}, got {tuple(values.shape)}"
        )


def _analysed(source: Any) -> tuple[Pattern, torch.Tensor]:
    if isinstance(source, Sparse):
        return source.pattern, source.values
    if isinstance(source, torch.Tensor):
        return _of_tensor(source)
    if not is_sparse(source):
        raise TypeError(f"pattern must be a scipy.sparse matrix or a sparse tensor, got {type(source)}")
    entries = source.tocoo()
    pattern = Pattern(entries.shape, entries.row, entries.col)
    return pattern, torch.from_numpy(np.array(entries.data, dtype=np.float64))


def _of_tensor(tensor: torch.Tensor) -> tuple[Pattern, torch.Tensor]:
    shape = (tensor.shape[-2], tensor.shape[-1])
    if tensor.layout is torch.sparse_coo:
        if not tensor.is_coalesced():
            tensor = tensor.coalesce()
        if tensor.sparse_dim() != 2 or tensor.dense_dim() != 0:
            raise ValueError(
                "a sparse COO tensor must be one matrix: use Sparse(pattern, values) for a batch"
            )
        rows, columns = tensor.indices().numpy()
        return Pattern(shape, rows, columns), tensor.values()
    if tensor.layout is torch.sparse_csr:
        lines, places = tensor.crow_indices(), tensor.col_indices()
    elif tensor.layout is torch.sparse_csc:
        lines, places = tensor.ccol_indices(), tensor.row_indices()
    else:
        raise TypeError(f"the layout {tensor.layout} is not served: use torch.sparse_csr")
    starts, inner = _only(lines), _only(places)
    outer = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    rows, columns = (outer, inner) if tensor.layout is torch.sparse_csr else (inner, outer)
    return Pattern(shape, rows, columns), tensor.values()


def _only(indices: torch.Tensor) -> NDArray[Any]:
    """The indices that all instances of a batch have."""
    rows = indices.reshape(-1, indices.shape[-1])
    if len(rows) == 0:
        raise ValueError("a sparse tensor without instances has no pattern: use Sparse(pattern, values)")
    if not bool((rows == rows[0]).all()):
        raise ValueError("the sparse matrices of a batch must store the same entries")
    return np.asarray(rows[0].numpy())


def problem_arguments(fields: tuple[Any, ...], patterns: Patterns | None) -> dict[str, Any]:
    """What `make_problem` takes."""
    sparse = patterns or (None,) * len(FIELDS)
    arguments: dict[str, Any] = {}
    for name, value, pattern in zip(FIELDS, fields, sparse, strict=True):
        array = as_double(name, value).detach().numpy() if isinstance(value, torch.Tensor) else value
        arguments[name] = array if pattern is None or array is None else pattern.matrix(array)
    return arguments
