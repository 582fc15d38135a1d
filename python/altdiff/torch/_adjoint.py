"""The derivatives of a solution in terms of one linear solve, whoever does it; failed instances apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from altdiff._fields import FIELDS, POINT
from altdiff._status import Status
from altdiff.torch._least import Asked, filled, turned, turning_gradients
from altdiff.torch._products import Vector, field_gradients, field_tangents, plus
from altdiff.torch._sparse import attached

if TYPE_CHECKING:
    from torch import Tensor

    from altdiff.torch._least import Maps
    from altdiff.torch._products import Fields
    from altdiff.torch._sparse import Patterns


class Guard(NamedTuple):
    """What a failure policy means for derivatives."""

    needed: bool  # whether an instance may have failed
    filler: float  # what stands for the derivative of an instance that did


class Kept(NamedTuple):
    """What the derivatives need of a solve."""

    fields: Fields
    point: Vector
    failed: Tensor | None  # None: no instance has


def kept(saved: tuple[Tensor | None, ...], guard: Guard, patterns: Patterns | None = None) -> Kept:
    """Fields, point and status as they were saved; the point of a failed instance counts as zero."""
    fields = attached(saved[: len(FIELDS)], patterns)
    parts, status = saved[len(FIELDS) : -1], saved[-1]
    if not guard.needed or status is None:
        return Kept(fields, _vector(parts), None)
    failed = status != Status.SOLVED
    return Kept(
        fields, Vector(*(torch.where(failed.unsqueeze(-1), 0.0, part) for part in _vector(parts))), failed
    )


def gradients(
    maps: Maps, guard: Guard, known: Kept, needed: tuple[bool, ...], bars: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """(V1)-(V9) for cotangents of x, y, z, z_box and objective."""
    point_bars, objective_bar = bars[: len(POINT)], bars[len(POINT)]
    adjoint = None
    if any(bar is not None for bar in point_bars):
        adjoint = maps.solve(known.fields, filled(point_bars, known.point))
    if objective_bar is not None:
        objective_bar = _silenced(objective_bar, known.failed, guard)
    found = field_gradients(adjoint, objective_bar, known.point, known.fields, needed)
    if bars[0] is not None:
        turning = turning_gradients(maps, Asked(known.fields, needed), bars[0], known.point)
        for place, gradient in zip((0, 2, 4), turning, strict=True):
            found[place] = plus(found[place], gradient)  # (L5)
    return found


def tangents(
    maps: Maps, guard: Guard, known: Kept, changes: Fields
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Those of x, y, z, z_box and objective: (T1), (L4), and the envelope theorem."""
    right_side, objective = field_tangents(changes, known.point, known.fields)
    moved = maps.solve(known.fields, filled(right_side, known.point))
    moved = turned(maps, known.fields, changes, known.point, moved)
    return (*moved, _silenced(objective, known.failed, guard))


def _silenced(value: Tensor, failed: Tensor | None, guard: Guard) -> Tensor:
    return value if failed is None else torch.where(failed & (value != 0), guard.filler, value)


def _vector(parts: tuple[Tensor | None, ...]) -> Vector:
    x, y, z, z_box = (part for part in parts if part is not None)
    return Vector(x, y, z, z_box)
