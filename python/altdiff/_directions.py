"""Cotangents of a solution and tangents of a problem, checked against what they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from altdiff._arrays import full_csc, is_sparse, real_array, sparse_matrix
from altdiff._fields import MATRICES
from altdiff._stack import SparseStack, is_list_of_sparse, stack_of

if TYPE_CHECKING:
    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._problem import Index, Problem


def cotangent(name: str, value: MatrixLike | None, shape: tuple[int, ...]) -> Array | None:
    """A cotangent, broadcast to the shape of what it belongs to."""
    if value is None:
        return None
    label = f"{name}_bar"
    array = real_array(label, value)
    return _broadcast(label, array, shape)


def direction(problem: Problem, name: str, value: MatrixLike | None) -> Block | None:
    """A tangent of a field: of one instance's shape, or with batch dimensions."""
    if value is None:
        return None
    label = f"the tangent of {name}"
    if problem.layout.used[name] is None:
        raise ValueError(f"{label} must be None: {name} is absent")
    shape = problem.layout.shape(name)
    if is_list_of_sparse(value):
        stack = stack_of(label, value)
        if name not in MATRICES or stack.shape != (*problem.batch, *shape):
            raise ValueError(f"{label} must have shape {(*problem.batch, *shape)}, got {stack.shape}")
        return stack
    if is_sparse(value):
        matrix = sparse_matrix(label, value)
        if name not in MATRICES or matrix.shape != shape:
            raise ValueError(f"{label} must have shape {shape}, got {matrix.shape}")
        return matrix
    array = real_array(label, value)
    if array.ndim == 0 and problem.layout.given[name] == ():
        array = np.full(shape, float(array))
    if array.shape[-len(shape) :] != shape:
        raise ValueError(f"{label} must have shape {(*problem.batch, *shape)}, got {array.shape}")
    return _broadcast(label, array, (*problem.batch, *shape))


def block(problem: Problem, name: str, value: Block | None, index: Index) -> Block:
    """The tangent of one instance's field as the core takes it."""
    if value is None:
        return None
    if isinstance(value, SparseStack):
        value = value[index]
    if not is_sparse(value):
        own = np.ascontiguousarray(value[index])
        return full_csc(own) if problem.sparse and name in MATRICES else own
    return value if problem.sparse else np.ascontiguousarray(value.toarray())


def _broadcast(label: str, array: Array, shape: tuple[int, ...]) -> Array:
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{label} must have shape {shape}, got {array.shape}") from None
