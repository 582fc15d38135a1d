"""Exact derivatives of a known solution: (A2), (T1) and (V1)-(V8) of docs/math.md in fractions."""

from __future__ import annotations

import numpy as np

from tests.stress.exact_programs import Known
from tests.stress.programs import Array
from tests.stress.rational import exact

Fields = dict[str, Array]


def outer(a: Array, b: Array) -> Array:
    """a b'."""
    return np.asarray(np.multiply.outer(a, b))


def solved(k: Known, right: Array) -> tuple[Array, Array, Array, Array]:
    """The parts of -K^-1 right that belong to x, and to all rows and bounds: zero where inactive."""
    n, m, p = k.program.shape
    w = -(k.inverse @ right)
    r, box = exact(np.zeros(m)), exact(np.zeros(n))
    r[k.rows], box[k.box] = w[n + p : n + p + k.rows.size], w[n + p + k.rows.size :]
    return w[:n], w[n : n + p], r, box


def gradient(k: Known, bars: Fields) -> Fields:
    """The gradient of every field."""
    x_bar, y_bar, z_bar, box_bar = (exact(bars[name]) for name in ("x", "y", "z", "z_box"))
    u, v, r, box = solved(k, np.concatenate([x_bar, y_bar, z_bar[k.rows], box_bar[k.box]]))
    lower = k.z_box < 0
    return {
        "P": (outer(u, k.x) + outer(k.x, u)) / 2,
        "q": u,
        "G": outer(r, k.x) + outer(k.z, u),
        "h": -r,
        "A": outer(v, k.x) + outer(k.y, u),
        "b": -v,
        "lb": np.where(lower, -box, 0 * box),
        "ub": np.where(lower, 0 * box, -box),
    }


def tangent(k: Known, d: Fields) -> Fields:
    """How x and the multipliers move with the fields."""
    t = {name: exact(value) for name, value in d.items()}
    dP = (t["P"] + t["P"].T) / 2
    moved = np.where(k.z_box < 0, t["lb"], t["ub"])
    right = np.concatenate(
        [
            dP @ k.x + t["q"] + t["A"].T @ k.y + t["G"].T @ k.z,
            t["A"] @ k.x - t["b"],
            (t["G"] @ k.x - t["h"])[k.rows],
            -moved[k.box],
        ]
    )
    return dict(zip(("x", "y", "z", "z_box"), solved(k, right), strict=True))


def jacobian(k: Known, field: str) -> Array:
    """dx / d(field) of a vector field."""
    n, m, p = k.program.shape
    J = exact(np.zeros((n, {"q": n, "h": m, "b": p, "lb": n, "ub": n}[field])))
    inverse, first = k.inverse[:n], n + p + k.rows.size
    if field == "q":
        J[:] = -inverse[:, :n]
    elif field == "b":
        J[:] = inverse[:, n : n + p]
    elif field == "h":
        J[:, k.rows] = inverse[:, n + p : first]
    else:
        side = (k.z_box[k.box] < 0) == (field == "lb")
        J[:, k.box[side]] = inverse[:, first:][:, side]
    return J
