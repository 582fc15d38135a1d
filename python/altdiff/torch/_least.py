"""How the two maps behind derivatives change with the matrices, where x is the least of many.

With K the matrix of (A2), S solves it and F is the projection on the directions in which x is free; E keeps
of a vector its x. The derivatives of S and F are made of S, F and products with dK: of any order nothing
else is needed. Where every x is unique there is no F, and what is left is (H1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch

from altdiff.torch._products import Vector, matrix_gradients, matrix_tangent, plus

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from altdiff.torch._products import Fields

    LinearSolve: TypeAlias = Callable[[Fields, Vector], Vector]
    FlatPart: TypeAlias = Callable[[Fields, Tensor], Tensor]


class Maps(NamedTuple):
    """S and F of a solved batch."""

    solve: LinearSolve
    flat: FlatPart | None  # of vectors like x; None: every x is unique


class Asked(NamedTuple):
    """For which matrices a gradient is wanted, and how many dimensions of the vectors they do not have."""

    fields: Fields
    needed: tuple[bool, ...]
    columns: int = 0


def filled(parts: tuple[Tensor | None, ...], like: Vector) -> Vector:
    """The vector, with zeros for None."""
    return Vector(*(torch.zeros_like(b) if a is None else a for a, b in zip(parts, like, strict=True)))


def only_x(x: Tensor, like: Vector) -> Vector:
    """E: x, and as many multipliers as another vector has, which are zero."""
    return without_multipliers(x, like.y.shape[-1], like.z.shape[-1])


def without_multipliers(x: Tensor, p: int, m: int) -> Vector:
    """x as a vector of (A2)."""
    y, z = (x.new_zeros((*x.shape[:-1], size)) for size in (p, m))
    return Vector(x, y, z, torch.zeros_like(x))


def turning_gradients(maps: Maps, asked: Asked, bar: Tensor, point: Vector) -> list[Tensor | None]:
    """What the matrices are to -bar'F dK S E point, for P, G and A: (L5), where -S E x is the turn of x."""
    fields, needed, columns = asked
    if maps.flat is None or not any(of_matrices(needed)):
        return [None, None, None]
    flat = only_x(-maps.flat(fields, bar), point)
    turn = maps.solve(fields, only_x(point.x, point))
    return matrix_gradients(flat, turn, fields, needed, columns)


def turned(
    maps: Maps, fields: Fields, changes: Fields, point: Vector, moved: Vector, columns: int = 0
) -> Vector:
    """`moved`, with -F dK S E point (L4)."""
    if maps.flat is None or all(change is None for change in of_matrices(changes)):
        return moved
    turn = maps.solve(fields, only_x(point.x, point))
    push = matrix_tangent(changes, turn, columns)[0]
    if push is None:  # matrices without rows
        return moved
    return moved._replace(x=moved.x - maps.flat(fields, push.expand(moved.x.shape)))


def solve_gradients(
    maps: Maps, asked: Asked, right_side: Vector | None, solution: Vector, bars: Vector
) -> tuple[list[Tensor | None], Vector]:
    """Those of P, G and A, and of the right-hand side, for a cotangent of its solution."""
    fields, needed, columns = asked
    adjoint = maps.solve(fields, bars)  # (H1)
    total = matrix_gradients(adjoint, solution, fields, needed, columns)
    if maps.flat is not None and right_side is not None:
        total = added(total, turning_gradients(maps, asked, bars.x, solution))
        total = added(total, turning_gradients(maps, asked, right_side.x.expand(bars.x.shape), adjoint))
    return total, adjoint  # (L6)


def solve_tangent(
    maps: Maps,
    fields: Fields,
    changes: Fields,
    right_side: tuple[Vector | None, tuple[Tensor | None, ...]],
    solution: Vector,
    columns: int,
) -> Vector:
    """That of a solution. `right_side`: as it was, where that matters, and its change."""
    start, change = right_side
    matrices = matrix_tangent(changes, solution, columns)
    total = filled(tuple([plus(a, b) for a, b in zip(matrices, change, strict=True)]), solution)
    if maps.flat is not None and start is not None and any(m is not None for m in matrices):
        flat = maps.flat(fields, start.x.expand(solution.x.shape))
        push = matrix_tangent(changes, only_x(flat, solution), columns)
        turned_by = maps.solve(fields, filled(tuple(push), solution)).x
        total = total._replace(x=total.x - turned_by)
    return turned(maps, fields, changes, solution, maps.solve(fields, total), columns)  # (L6)


def flat_gradients(
    maps: Maps, asked: Asked, v: Vector, flat: Tensor, bar: Tensor
) -> tuple[list[Tensor | None], Tensor]:
    """Those of P, G and A, and of v, which is E v, for a cotangent of its flat part."""
    assert maps.flat is not None
    fields, needed, columns = asked
    own = maps.flat(fields, bar)
    if not any(of_matrices(needed)):
        return [None, None, None], own
    total = matrix_gradients(only_x(own, v), maps.solve(fields, v), fields, needed, columns)
    turn = maps.solve(fields, only_x(bar, v))
    return added(total, matrix_gradients(only_x(flat, v), turn, fields, needed, columns)), own  # (L7)


def flat_tangent(
    maps: Maps,
    fields: Fields,
    changes: Fields,
    v: tuple[Vector, Tensor | None],
    flat: Tensor,
    columns: int,
) -> Tensor:
    """That of the flat part of a vector, which is E v. `v`: as it was, and its change."""
    assert maps.flat is not None
    start, change = v
    if change is not None and all(own is None for own in of_matrices(changes)):
        return maps.flat(fields, change.expand(flat.shape))
    total = plus(matrix_tangent(changes, maps.solve(fields, start), columns)[0], change)
    push = filled(tuple(matrix_tangent(changes, only_x(flat, start), columns)), start)
    moved = maps.solve(fields, push).x
    return moved if total is None else moved + maps.flat(fields, total.expand(flat.shape))  # (L7)


def of_matrices(values: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Of things for the eight fields those for P, G and A."""
    return values[0], values[2], values[4]


def added(left: list[Tensor | None], right: list[Tensor | None]) -> list[Tensor | None]:
    """Sums, where None is zero."""
    return [plus(a, b) for a, b in zip(left, right, strict=True)]
