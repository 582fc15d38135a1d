"""Turns whatever a user passes into float64 arrays, never writing to it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import sparray, spmatrix

    Array: TypeAlias = NDArray[np.float64]
    SparseMatrix: TypeAlias = sparray | spmatrix
    MatrixLike: TypeAlias = ArrayLike | SparseMatrix | Sequence[SparseMatrix]

# A float64 array or, for P, G and A, a csc matrix. scipy's types differ too much between versions to name it.
Block: TypeAlias = Any


def is_sparse(value: object) -> bool:
    """Whether `value` is a scipy.sparse matrix, without importing scipy where nobody else did."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(value))


def real_array(name: str, value: object) -> Array:
    """`value` as a C-contiguous float64 array; a copy only where one is needed."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of real numbers: {error}") from error
    _require_real(name, array.dtype)
    return np.asarray(array, dtype=np.float64, order="C")


def sparse_matrix(name: str, value: Any) -> Block:
    """`value` as a csc matrix with sorted indices, duplicates summed; a copy unless it is one already."""
    from scipy.sparse import csc_array, csc_matrix, sparray

    if len(value.shape) != 2:
        raise ValueError(f"{name} must be a matrix when it is sparse, got shape {value.shape}")
    _require_real(name, value.dtype)
    # scipy's arrays and matrices multiply differently: whoever passes one kind gets gradients of that kind.
    kind: Any = csc_array if isinstance(value, sparray) else csc_matrix
    # The check below would trim a matrix with room to spare: not the user's own.
    as_it_is = type(value) is kind and value.dtype == np.float64 and value.data.size == value.nnz
    matrix = value if as_it_is else kind(value, dtype=np.float64)
    try:
        check_format(matrix)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid sparse matrix: {error}") from error
    # The core takes writable arrays only, although it never writes to them.
    writable = all(part.flags.writeable for part in (matrix.data, matrix.indices, matrix.indptr))
    if not (writable and matrix.has_canonical_format):
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def check_format(matrix: Block) -> None:
    """ValueError if a csc matrix is damaged: other operations trust its indices.

    scipy's own check passes over the column pointers of a matrix that ends without an entry, and takes longer
    than a small problem.
    """
    starts, rows, columns = matrix.indptr, matrix.indices, matrix.shape[1]
    if starts.ndim != 1 or rows.ndim != 1 or matrix.data.ndim != 1:
        raise ValueError("indptr, indices and data must be one-dimensional")
    if starts.dtype.kind != "i" or rows.dtype.kind != "i":
        raise ValueError("indptr and indices must be integers")
    if len(starts) != columns + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"indptr must have {columns + 1} entries, begin with 0 and never fall")
    count = starts[-1]
    if len(rows) < count or len(matrix.data) < count:
        raise ValueError(
            f"indptr ends with {count}, but there are {min(len(rows), len(matrix.data))} entries"
        )
    if count and (rows[:count].min() < 0 or rows[:count].max() >= matrix.shape[0]):
        raise ValueError(f"indices must be below the number of rows, {matrix.shape[0]}, and not negative")


def full_csc(array: Array) -> Block:
    """A dense matrix as csc with every entry stored, zeros too: its gradient is then dense again."""
    from scipy.sparse import csc_matrix

    rows, columns = array.shape
    indices = np.tile(np.arange(rows, dtype=np.int32), columns)
    starts = np.arange(columns + 1, dtype=np.int32) * rows
    return csc_matrix((array.T.flatten(), indices, starts), shape=(rows, columns))


def on_pattern(matrix: Block, data: Array) -> Block:
    """The csc matrix with the stored entries of `matrix` and other values."""
    return type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)


def _require_real(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "iuf":
        raise TypeError(f"{name} must be real numbers, got dtype {dtype}")
