"""Derivatives of a solution by a dense solve with the KKT matrix: slow, and independent of the library."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.problems import FIELDS, POINT, Array, Data, filled


def kkt_tangents(data: Data, solution: Any, tangents: dict[str, Array]) -> dict[str, Array]:
    """How x, y, z and z_box move along directions of the fields, each with a last axis that counts them.

    The active constraints are those with a multiplier; strict complementarity is the caller's business.
    """
    P, q, G, h, A, b, _, _ = (filled(data)[name] for name in FIELDS)
    x, y, z, z_box = (np.asarray(getattr(solution, name)) for name in POINT)
    n, m, p = q.size, h.size, b.size
    rows, box = np.flatnonzero(z > 1e-8), np.flatnonzero(np.abs(z_box) > 1e-8)
    C = np.vstack([A, G[rows], np.eye(n)[box]])
    K = np.block([[(P + P.T) / 2, C.T], [C, np.zeros((len(C), len(C)))]])

    count = next(iter(tangents.values())).shape[-1]
    shapes = {"P": (n, n), "q": (n,), "G": (m, n), "h": (m,), "A": (p, n), "b": (p,), "lb": (n,), "ub": (n,)}
    d = {name: tangents.get(name, np.zeros((*shape, count))) for name, shape in shapes.items()}
    dP = (d["P"] + d["P"].transpose(1, 0, 2)) / 2
    moved_bound = np.where((z_box > 0)[:, None], d["ub"], d["lb"])
    right = -np.concatenate(
        [
            np.einsum("ijk,j->ik", dP, x) + d["q"] + np.einsum("ijk,i->jk", d["A"], y)
            + np.einsum("ijk,i->jk", d["G"], z),
            np.einsum("ijk,j->ik", d["A"], x) - d["b"],
            (np.einsum("ijk,j->ik", d["G"], x) - d["h"])[rows],
            -moved_bound[box],
        ]
    )  # fmt: skip
    moved = np.linalg.solve(K, right)
    out = {"x": moved[:n], "y": moved[n : n + p], "z": np.zeros((m, count)), "z_box": np.zeros((n, count))}
    out["z"][rows] = moved[n + p : n + p + rows.size]
    out["z_box"][box] = moved[n + p + rows.size :]
    return out


def kkt_gradient(data: Data, solution: Any, field: str, bars: dict[str, Array]) -> Array:
    """The gradient of a field: the cotangents against the tangent of each of its entries."""
    shape = filled(data)[field].shape
    size = int(np.prod(shape))
    unit = np.eye(size).reshape(*shape, size)
    tangents = kkt_tangents(data, solution, {field: unit})
    total = np.zeros(size)
    for name, bar in bars.items():
        total += bar @ tangents[name]
    return total.reshape(shape)


def kkt_jacobian(data: Data, solution: Any, field: str) -> Array:
    """dx / d(field) for a vector field."""
    size = filled(data)[field].size
    return kkt_tangents(data, solution, {field: np.eye(size)})["x"]
