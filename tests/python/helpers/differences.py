"""Central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from helpers.problems import Array

STEP = 1e-5


def central_difference(function: Callable[[Array], Array], at: Array, direction: Array) -> Array:
    """The derivative of `function` along `direction`; exact to rounding where the function is quadratic."""
    ahead = np.asarray(function(at + STEP * direction))
    behind = np.asarray(function(at - STEP * direction))
    return (ahead - behind) / (2 * STEP)


def relative_error(value: Array, reference: Array) -> float:
    """The largest error, relative to the largest entry where that exceeds one."""
    scale = max(1.0, float(np.abs(reference).max(initial=0.0)))
    return float(np.abs(np.asarray(value) - reference).max(initial=0.0)) / scale
