"""Programs whose solution and derivatives are known exactly: a rational KKT system at the right active set.

The data are floats, so they are rational; the active set is guessed, and the exact solution on it must have
the right signs with room to spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from zlib import crc32

import numpy as np

from tests.stress.blocks import curvature, integers
from tests.stress.programs import Array, Program, Rng, Shape
from tests.stress.rational import exact, solve

KINDS = ("definite", "singular", "linear", "small P", "objective")
LEAST = Fraction(1, 100)  # multiplier or slack of a row, so that nothing is in doubt
ATTEMPTS = 200


@dataclass(frozen=True)
class Known:
    """A program, its exact solution, and the inverse of its KKT matrix."""

    kind: str
    program: Program
    unit: float  # what the objective was multiplied by
    rows: Array  # active rows of G
    box: Array  # active bounds
    x: Array
    y: Array
    z: Array
    z_box: Array
    inverse: Array  # of [P C'; C 0], C = [A; active rows; active bounds]


def known_shape(seed: int) -> Shape:
    """The shape of a group of seeds."""
    rng = np.random.default_rng([1, seed])
    n = int(rng.integers(1, 6))
    return Shape(n, int(rng.integers(0, 6)), int(rng.integers(0, n)))


def known(kind: str, seed: int, shape: Shape) -> Known:
    """The program of a seed; guesses until one fits."""
    rng = np.random.default_rng([crc32(kind.encode()), seed])
    for _ in range(ATTEMPTS):
        found = _guess(rng, kind, shape)
        if found is not None:
            return found
    raise ValueError(f"no program for {kind} {seed} {shape}")


def _guess(rng: Rng, kind: str, shape: Shape) -> Known | None:
    n, m, p = shape
    room = n - p
    # Without curvature worth the name only a vertex is a solution that rounding leaves alone.
    active = room if kind in ("linear", "small P") else int(rng.integers(0, room + 1))
    on_rows = int(rng.integers(0, min(active, m) + 1))
    rows = np.sort(rng.permutation(m)[:on_rows])
    box = np.sort(rng.permutation(n)[: active - on_rows])
    x = integers(rng, n, largest=4, density=1.0) / 2
    P = _curvature(rng, kind, n)
    G, A = integers(rng, m, n), integers(rng, p, n)
    z, z_box, y = np.zeros(m), np.zeros(n), integers(rng, p)
    z[rows] = rng.integers(1, 5, size=rows.size)
    z_box[box] = rng.choice([-1, 1], size=box.size) * rng.integers(1, 5, size=box.size)
    h = G @ x + np.where(z > 0, 0, rng.integers(1, 4, size=m))
    lb = np.where(z_box < 0, x, np.where(rng.uniform(size=n) < 0.5, x - rng.integers(1, 4, size=n), -np.inf))
    ub = np.where(z_box > 0, x, np.where(rng.uniform(size=n) < 0.5, x + rng.integers(1, 4, size=n), np.inf))
    unit = 2.0 ** float(rng.integers(-40, 41)) if kind == "objective" else 1.0
    q = -(P @ x + G.T @ z + A.T @ y + z_box)
    program = Program(unit * P, unit * q, G, h, A, A @ x, lb, ub)
    return _checked(kind, program, unit, rows, box, z_box[box] > 0)


def _curvature(rng: Rng, kind: str, n: int) -> Array:
    if kind == "linear":
        return np.zeros((n, n))
    if kind == "singular":
        return curvature(rng, n)
    P = curvature(rng, n) + np.diag(rng.integers(1, 4, size=n).astype(float))
    return P * 2.0 ** -float(rng.integers(10, 60)) if kind == "small P" else P


def _checked(kind: str, program: Program, unit: float, rows: Array, box: Array, upper: Array) -> Known | None:
    """Solves on the active set; None if that is not the solution, or is close to not being it."""
    n, m, p = program.shape
    r = {name: exact(value) for name, value in vars(program).items() if name not in ("lb", "ub", "h")}
    G, A = r["G"], r["A"]
    C = np.concatenate([A, G[rows], exact(np.eye(n))[box]])
    K = np.block([[r["P"], C.T], [C, exact(np.zeros((len(C), len(C))))]])
    inverse = solve(K, exact(np.eye(len(K))))
    if inverse is None:
        return None
    limits = np.where(upper, program.ub[box], program.lb[box])
    right = np.concatenate([-r["q"], r["b"], exact(program.h[rows]), exact(limits)])
    point = inverse @ right
    x, y = point[:n], point[n : n + p]
    z, z_box = exact(np.zeros(m)), exact(np.zeros(n))
    z[rows], z_box[box] = point[n + p : n + p + rows.size], point[n + p + rows.size :]
    found = Known(kind, program, unit, rows, box, x, y, z, z_box, inverse)
    return found if _clear(found, upper) else None


def _clear(k: Known, upper: Array) -> bool:
    """Whether signs are right with room to spare, in units of the objective."""
    least = LEAST * Fraction(k.unit)
    forces = np.where(upper, k.z_box[k.box], -k.z_box[k.box])
    if any(k.z[k.rows] < least) or any(forces < least):
        return False
    idle = np.setdiff1d(np.arange(k.program.shape.m), k.rows)
    slack = exact(k.program.h[idle]) - exact(k.program.G[idle]) @ k.x if idle.size else []
    if any(value < LEAST for value in slack):
        return False
    free = np.setdiff1d(np.arange(k.program.shape.n), k.box)
    for limit, sign in ((k.program.lb, -1), (k.program.ub, 1)):
        for j in free:
            if np.isfinite(limit[j]) and sign * (Fraction(limit[j]) - k.x[j]) < LEAST:
                return False
    return not any(abs(value) > 1000 for value in k.x)
