"""The gradient of the optimal objective: the partial derivatives of the Lagrangian at the solution.

By the envelope theorem x and the multipliers need no derivative of their own, so it holds even where x is not
unique. With L = 1/2 x'Px + q'x + y'(Ax - b) + z'(Gx - h) + max(z_box, 0)'(x - ub) + min(z_box, 0)'(x - lb).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._arrays import Array


def objective_gradient(field: str, point: Mapping[str, Array]) -> Array:
    """The derivative of the optimal objective of one instance with respect to a field."""
    x, y, z, z_box = point["x"], point["y"], point["z"], point["z_box"]
    match field:
        case "P":
            return 0.5 * np.outer(x, x)
        case "q":
            return x
        case "G":
            return np.outer(z, x)
        case "h":
            return -z
        case "A":
            return np.outer(y, x)
        case "b":
            return -y
        case "lb":
            return -np.minimum(z_box, 0.0)
        case "ub":
            return -np.maximum(z_box, 0.0)
    raise ValueError(f"{field!r} is not a field of a quadratic program")
