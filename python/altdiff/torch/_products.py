"""Products of KKT vectors with each other and with changes of the fields, which torch can differentiate.

A KKT vector is four tensors, for x, y, z and z_box. Each is (*batch, *columns, size): `columns` counts the
dimensions that hold several vectors for one instance, which the fields do not have.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

from altdiff.torch._sparse import Entries

if TYPE_CHECKING:
    from torch import Tensor

    # Of the KKT matrix a block may be sparse.
    Fields: TypeAlias = tuple[Any, ...]


class Vector(NamedTuple):
    """A point, a right-hand side or a solution of (A2)."""

    x: Tensor
    y: Tensor
    z: Tensor
    z_box: Tensor


def outer(left: Tensor, right: Tensor, field: Tensor | Entries, columns: int = 0) -> Tensor:
    """left right', summed over the columns and over the instances that share the field."""
    if isinstance(field, Entries):
        own = left[..., field.rows] * right[..., field.columns]
        return _rows(own, columns).sum(-2).sum_to_size(field.values.shape)
    if field.numel() == 0:  # a block without rows, or a batch without instances
        return torch.zeros_like(field)
    if field.dim() == 2:  # one product for the whole batch: no matrix for each instance
        return left.reshape(-1, left.shape[-1]).mT @ right.reshape(-1, right.shape[-1])
    full = _rows(left, columns).mT @ _rows(right, columns)
    return full.sum_to_size(field.shape)


def matrix_gradients(
    adjoint: Vector, point: Vector, fields: Fields, needed: tuple[bool, ...], columns: int = 0
) -> list[Tensor | None]:
    """What the entries of the KKT matrix are to adjoint' K point: (V2), (V4), (V6) for P, G and A."""
    P, G, A = fields[0], fields[2], fields[4]
    gradients: list[Tensor | None] = [None, None, None]
    if needed[0] and P is not None:
        half = outer(0.5 * adjoint.x, point.x, P, columns)
        sparse = isinstance(P, Entries)
        gradients[0] = half + (outer(point.x, 0.5 * adjoint.x, P, columns) if sparse else half.mT)
    if needed[2] and G is not None:
        gradients[1] = outer(adjoint.z, point.x, G, columns) + outer(point.z, adjoint.x, G, columns)
    if needed[4] and A is not None:
        gradients[2] = outer(adjoint.y, point.x, A, columns) + outer(point.y, adjoint.x, A, columns)
    return gradients


def matrix_tangent(tangents: Fields, point: Vector, columns: int = 0) -> list[Tensor | None]:
    """dK point, the matrices' part of (T1); None where it is zero."""
    dP, dG, dA = tangents[0], tangents[2], tangents[4]
    x: Tensor | None = None
    y: Tensor | None = None
    z: Tensor | None = None
    if dP is not None:
        x = 0.5 * (_times(dP, point.x, columns) + _times(dP.mT, point.x, columns))
    if dG is not None and not _is_empty(dG):
        x = plus(x, _times(dG.mT, point.z, columns))
        z = _times(dG, point.x, columns)
    if dA is not None and not _is_empty(dA):
        x = plus(x, _times(dA.mT, point.y, columns))
        y = _times(dA, point.x, columns)
    return [x, y, z, None]


def field_gradients(
    adjoint: Vector | None,
    objective_bar: Tensor | None,
    point: Vector,
    fields: Fields,
    needed: tuple[bool, ...],
) -> list[Tensor | None]:
    """(V2)-(V9) for the fields that need a gradient. The objective adds an adjoint along the point."""
    if objective_bar is None and adjoint is None:
        return [None] * len(fields)
    half, whole = (_along(adjoint, point, objective_bar, scale) for scale in (0.5, 1.0))
    P, G, A = matrix_gradients(half, point, fields, needed)
    vectors: list[Tensor | None] = [whole.x, -whole.z, -whole.y, None, None]
    if needed[6] or needed[7]:
        upper = at_upper(point, fields[6], fields[7])
        vectors[3:] = -whole.z_box * ~upper, -whole.z_box * upper  # (V8)
    q, h, b, lb, ub = (
        _summed(vector, field) if need and vector is not None and field is not None else None
        for vector, field, need in zip(vectors, _vectors(fields), _vectors(needed), strict=True)
    )
    return [P, q, G, h, A, b, lb, ub]


def field_tangents(
    tangents: Fields, point: Vector, fields: Fields
) -> tuple[tuple[Tensor | None, ...], Tensor]:
    """(T1), and the tangent of the objective by the envelope theorem."""
    matrices = matrix_tangent(tangents, point)
    dq, dh, db, dlb, dub = _vectors(tangents)
    bounds = None
    if dlb is not None or dub is not None:
        upper = at_upper(point, fields[6], fields[7])
        bounds = torch.where(upper, 0.0 if dub is None else -dub, 0.0 if dlb is None else -dlb)
    minus_b = None if db is None or db.numel() == 0 else -db
    minus_h = None if dh is None or dh.numel() == 0 else -dh
    vectors = [dq, minus_b, minus_h, bounds]
    objective = torch.zeros_like(point.x[..., 0])
    for part, matrix, vector in zip(point, matrices, vectors, strict=True):
        if matrix is not None:
            objective = objective + 0.5 * (part * matrix).sum(-1)
        if vector is not None:
            objective = objective + (part * vector).sum(-1)
    return tuple(plus(a, b) for a, b in zip(matrices, vectors, strict=True)), objective


def plus(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """The sum, where None is zero."""
    if left is None or right is None:
        return right if left is None else left
    return left + right


def at_upper(point: Vector, lb: Tensor | None, ub: Tensor | None) -> Tensor:
    """Which bound of each variable would be the active one; what is active the KKT solve knows.

    The one that pushes; where none does, the nearer of the two.
    """
    x, z_box = point.x.detach(), point.z_box.detach()
    if lb is None or ub is None:
        return torch.full_like(x, lb is None, dtype=torch.bool)
    nearer = ub.detach() - x <= x - lb.detach()
    return (z_box > 0) | ((z_box == 0) & nearer)


def _vectors(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of eight things for P, q, G, h, A, b, lb, ub those for q, h, b, lb and ub."""
    return fields[1], fields[3], fields[5], fields[6], fields[7]


def _along(adjoint: Vector | None, point: Vector, objective_bar: Tensor | None, scale: float) -> Vector:
    if objective_bar is None:
        return point if adjoint is None else adjoint
    bar = scale * objective_bar.unsqueeze(-1)
    envelope = Vector(*(bar * part for part in point))
    return envelope if adjoint is None else Vector(*(a + e for a, e in zip(adjoint, envelope, strict=True)))


def _summed(vector: Tensor, field: Tensor) -> Tensor:
    """Over the instances that share the field; a scalar bound is shared by all variables too."""
    return torch.zeros_like(field) if field.numel() == 0 else vector.sum_to_size(field.shape)


def _rows(vector: Tensor, columns: int) -> Tensor:
    """(*batch, all columns, size)."""
    batch = vector.shape[: vector.dim() - 1 - columns]
    inner = vector.shape[len(batch) : -1]
    return vector.reshape(*batch, math.prod(inner), vector.shape[-1])


def _is_empty(matrix: Tensor | Entries) -> bool:
    return not isinstance(matrix, Entries) and matrix.numel() == 0


def _times(matrix: Tensor | Entries, vector: Tensor, columns: int) -> Tensor:
    rows = _rows(vector, columns)
    if isinstance(matrix, Entries):
        own = rows[..., matrix.columns] * matrix.values.unsqueeze(-2)
        zero = own.new_zeros((*own.shape[:-1], matrix.shape[0]))
        product = zero.index_add(-1, matrix.rows, own)
    else:
        product = rows @ matrix.mT
    batch = product.shape[:-2]
    inner = vector.shape[vector.dim() - 1 - columns : -1]
    return product.reshape(*batch, *inner, product.shape[-1])
