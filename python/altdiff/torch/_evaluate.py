"""Answers the core's questions about a user's own f: one call for all waiting instances of a batch."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from altdiff._arrays import Array
    from altdiff._convex_layout import ConvexLayout
    from altdiff.torch._convex_objective import Bound
    from altdiff.torch._smooth import Smooth


FAR = (
    10.0,
    -1.0,
    -10.0,
    1e2,
    -1e2,
    1e3,
    -1e3,
)  # points to begin at, if those near zero are outside the domain


def flattened(layout: ConvexLayout, theta: Sequence[Tensor]) -> list[Tensor]:
    """Each theta with one batch dimension, or none where it is shared."""
    batch, count = layout.program.batch, layout.program.instances
    flat = []
    for number, value in zip(layout.numbers, theta, strict=True):
        own = value.shape[value.dim() - number.rank :]
        flat.append(value if number.lead == () else value.expand(*batch, *own).reshape(count, *own))
    return flat


def rows_of(layout: ConvexLayout, flat: Sequence[Tensor], rows: Tensor) -> list[Tensor]:
    """The theta of some instances."""
    if len(rows) == layout.program.instances:
        return list(flat)
    return [v if number.lead == () else v[rows] for number, v in zip(layout.numbers, flat, strict=True)]


class Evaluator:
    """f, its gradient and its Hessian at the points of some instances."""

    def __init__(self, bound: Bound, layout: ConvexLayout, theta: Sequence[Tensor]) -> None:
        self._smooth: Smooth = bound.smooth
        self._layout = layout
        self._flat = flattened(layout, theta)
        self.domain = bound.options.domain

    def __call__(
        self, instances: NDArray[np.int64], x: Array, value: Array, gradient: Array, hessian: Array
    ) -> None:
        """Writes values, gradients, and Hessians, of which an elementwise function has the diagonal only."""
        with torch.no_grad():
            points = torch.from_numpy(x.copy())
            theta = rows_of(self._layout, self._flat, torch.from_numpy(instances.copy()))
            f, g, H = self._smooth.all(points, theta)
            for target, answer in ((value, self._inside(points, f)), (gradient, g), (hessian, H)):
                target[...] = answer.numpy(force=True)  # forced: torch has zeros that take no memory

    def values(self, x: Tensor) -> Tensor:
        """f of every instance, not finite outside the domain."""
        with torch.no_grad():
            return self._inside(x, self._smooth.value(x, self._flat))

    def _inside(self, x: Tensor, f: Tensor) -> Tensor:
        """f, infinite outside the domain that the user declared."""
        if self.domain is None:
            return f
        low, high = self.domain
        return torch.where(((x > low) & (x < high)).all(-1), f, math.inf)


def starting_points(
    evaluate: Evaluator, layout: ConvexLayout, lb: Array | None, ub: Array | None, initial: Array | None
) -> Array:
    """Of each instance a point where f is finite: the initial one, or the first of a few; else zero."""
    count, n = layout.program.instances, layout.program.sizes["n"]
    low, high = (-math.inf, math.inf) if evaluate.domain is None else evaluate.domain
    shape = (*layout.program.batch, n)
    lower = np.maximum(np.broadcast_to(-np.inf if lb is None else lb, shape), low).reshape(count, n)
    upper = np.minimum(np.broadcast_to(np.inf if ub is None else ub, shape), high).reshape(count, n)
    start = np.zeros((count, n))
    waiting = np.ones(count, dtype=np.bool_)
    given = [] if initial is None else [np.reshape(initial, (count, n))]
    near = (_inside(lower, upper, distance) for distance in (0.0, 1.0, 1e-2, 1e-4))
    # A domain may begin anywhere: further away, on both sides.
    far = (np.clip(np.full((count, n), number), lower, upper) for number in FAR)
    for trial in chain(given, near, far):
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(evaluate.values(torch.from_numpy(trial.copy())).numpy())
        start[waiting & finite] = trial[waiting & finite]
        waiting &= ~finite
        if not waiting.any():
            break
    return start.reshape(shape)


def _inside(lower: Array, upper: Array, distance: float) -> Array:
    """A point at a distance from the limits, in the middle if they are close; 0: zero, or the near limit."""
    if distance == 0.0:
        return np.asarray(np.clip(0.0, lower, upper))
    from_above = np.where(np.isfinite(upper), upper - distance, distance)
    point: Array = np.where(np.isfinite(lower), lower + distance, from_above)
    with np.errstate(invalid="ignore"):  # infinite limits have no middle, and need none
        return np.where(upper - lower < 2.0 * distance, 0.5 * (lower + upper), point)


def evaluator(bound: Bound, layout: ConvexLayout, theta: Sequence[Tensor]) -> Evaluator:
    """Checks once, on one instance, that what has gradients is among theta."""
    evaluate = Evaluator(bound, layout, theta)
    if layout.program.instances:
        _require_arguments(bound, layout, evaluate._flat)
    return evaluate


def _require_arguments(bound: Bound, layout: ConvexLayout, flat: Sequence[Tensor]) -> None:
    """RuntimeError if f depends on a tensor that needs a gradient and would not get it."""
    first = [v if number.lead == () else v[0] for number, v in zip(layout.numbers, flat, strict=True)]
    x = torch.ones(layout.program.sizes["n"], dtype=torch.float64)
    with torch.enable_grad():
        value: Any = bound.smooth.value(x, first)
    if value.requires_grad:
        raise RuntimeError(
            "the objective uses a tensor that requires a gradient but is not among its arguments, and would "
            "get none: pass it as a theta, or detach it"
        )
