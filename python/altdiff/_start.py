"""Where the search for a solution may begin: at an earlier solution, or at a part of its batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._fields import POINT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._arrays import Array
    from altdiff._layout import Layout


def parts_of(initial: Any) -> dict[str, Any]:
    """x, y, z and z_box of what a user passes as `initial`."""
    parts = {name: getattr(initial, name, None) for name in POINT}
    if any(part is None for part in parts.values()):
        raise TypeError(f"initial must be a Solution, got {type(initial).__name__}")
    return parts


def start_from(initial: Mapping[str, Any], layout: Layout) -> dict[str, Array]:
    """x, y, z and z_box of an earlier solution, for every instance of a batch. NaN: nothing is known."""
    start = {}
    for name, size in POINT.items():
        array = np.asarray(initial[name], dtype=np.float64)
        shape = (*layout.batch, layout.sizes[size])
        if array.shape[-1] != shape[-1] or array.shape[:-1] not in ((), layout.batch):
            raise ValueError(f"initial.{name} must have shape {shape}, got {array.shape}")
        start[name] = np.broadcast_to(array, shape)
    return start
