"""Holds answers against the programs in extended precision, with nothing from the library.

The inequalities are those of docs/math.md. What the library computes in double precision differs from what is
computed here by rounding, and only that is forgiven: a small multiple of the precision times the sum of the
absolute values that go into a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from altdiff import Status

from tests.stress.programs import FIELDS, POINT, Array, Program
from tests.stress.ways import Answers

TOLERANCE = 1e-8  # of SOLVED, by default
PROOF = 1e-9  # of a certificate
DESCENT = 1e-7  # of a ray
FAR_OUT = 1e6  # times what comes of it: there x is known to rounding only
LEAST_CURVATURE = -1e-4  # (C3) forgives 3e-5 of what somebody rounded; no SOLVED beyond this
EPS = np.finfo(np.float64).eps
ROUNDING = 8 * EPS  # for each sum

UNANSWERED = (Status.MAX_ITERATIONS, Status.TIME_LIMIT, Status.NUMERICAL_ERROR)


@dataclass(frozen=True)
class Stack:
    """Programs and answers in extended precision; limits that do not exist are zero, and marked."""

    r: Program
    x: Array
    y: Array
    z: Array
    z_box: Array
    limited: Array
    below: Array
    above: Array

    @classmethod
    def of(cls, answers: Answers) -> Stack:
        """Widens everything."""
        wide: dict[str, Array] = {
            name: np.asarray(getattr(answers.programs, name), np.longdouble) for name in FIELDS
        }
        wide["P"] = (wide["P"] + wide["P"].swapaxes(-1, -2)) / 2
        limited, below, above = np.isfinite(wide["h"]), np.isfinite(wide["lb"]), np.isfinite(wide["ub"])
        wide["h"] = np.where(limited, wide["h"], 0)
        wide["lb"] = np.where(below, wide["lb"], 0)
        wide["ub"] = np.where(above, wide["ub"], 0)
        point = {name: np.asarray(getattr(answers, name), np.longdouble) for name in POINT}
        return cls(Program(**wide), **point, limited=limited, below=below, above=above)


def times(M: Array, v: Array) -> Array:
    """M v for each instance."""
    return np.asarray((M * v[:, None, :]).sum(axis=-1))


def times_transposed(M: Array, v: Array) -> Array:
    """M'v for each instance."""
    return np.asarray((M * v[:, :, None]).sum(axis=1))


def largest(*arrays: Array) -> Array:
    """The largest absolute entry of each instance; NaN if there is one."""
    count = len(arrays[0])
    entries = [np.abs(a).reshape(count, -1).max(axis=1, initial=0) for a in arrays]
    return np.asarray(np.max(entries, axis=0))


def positive(array: Array) -> Array:
    """Positive parts; NaN stays."""
    return np.maximum(array, np.longdouble(0))


def dot(a: Array, b: Array) -> Array:
    """a'b for each instance."""
    return np.asarray((a * b).sum(axis=-1))


def primal(s: Stack) -> tuple[Array, Array]:
    """(R1), and what rounding may add to it."""
    r = s.r
    Ax, Gx = times(r.A, s.x), times(r.G, s.x)
    violations = np.concatenate(
        [
            abs(Ax - r.b),
            np.where(s.limited, positive(Gx - r.h), 0),
            np.where(s.below, positive(r.lb - s.x), 0),
            np.where(s.above, positive(s.x - r.ub), 0),
        ],
        axis=-1,
    )
    own = np.concatenate([np.maximum(abs(Ax), abs(r.b)), abs(Gx), abs(s.x), abs(s.x)], axis=-1)
    size = np.maximum(1, largest(Ax, r.b, Gx, s.x))[:, None]
    scale = np.minimum(size, np.maximum(np.maximum(FAR_OUT, own), size / FAR_OUT))
    sums = np.concatenate(
        [times(abs(r.A), abs(s.x)), times(abs(r.G), abs(s.x)), own[:, -2 * r.shape.n :]], axis=-1
    )
    worst = np.asarray((violations - ROUNDING * sums) / scale)
    return np.maximum(worst.max(axis=-1), 0), np.zeros(len(worst))


def dual(s: Stack, floor: Array) -> tuple[Array, Array]:
    """(R2), and what rounding may add to it."""
    r = s.r
    Px, Aty, Gtz = times(r.P, s.x), times_transposed(r.A, s.y), times_transposed(r.G, s.z)
    signs = (
        positive(-s.z),
        np.where(s.limited, 0, s.z),
        np.where(s.above, 0, positive(s.z_box)),
        np.where(s.below, 0, positive(-s.z_box)),
    )
    gradient = Px + r.q + Aty + Gtz + s.z_box
    scale = np.maximum(floor, largest(Px, r.q, Aty, Gtz, s.z_box))
    far = times(abs(r.P), abs(s.x)) / FAR_OUT
    found = np.maximum(largest(gradient / np.maximum(far, scale[:, None])), largest(*signs) / scale)
    sums = times(abs(r.P), abs(s.x)) + abs(r.q) + times_transposed(abs(r.A), abs(s.y))
    sums = sums + times_transposed(abs(r.G), abs(s.z)) + abs(s.z_box)
    return found, ROUNDING * largest(sums) / scale


def gap(s: Stack, floor: Array) -> tuple[Array, Array]:
    """(R3), and what rounding may add to it."""
    r = s.r
    bounds = np.where(s.above, positive(s.z_box) * r.ub, 0) - np.where(s.below, positive(-s.z_box) * r.lb, 0)
    Px = times(r.P, s.x)
    terms = [dot(s.x, Px), dot(r.q, s.x), dot(r.b, s.y), dot(r.h, s.z), bounds.sum(axis=-1)]
    far = dot(abs(s.x), times(abs(r.P), abs(s.x))) / FAR_OUT
    scale = np.maximum(np.maximum(floor, far), largest(*(term[:, None] for term in terms)))
    sums = dot(abs(s.x), times(abs(r.P), abs(s.x))) + dot(abs(r.q), abs(s.x)) + dot(abs(r.b), abs(s.y))
    sums = sums + dot(abs(r.h), abs(s.z)) + abs(bounds).sum(axis=-1)
    return abs(sum(terms)) / scale, ROUNDING * sums / scale


def residuals(s: Stack) -> tuple[Array, Array]:
    """(R1), (R2), (R3), and what is allowed for each, (3, count)."""
    size = largest(s.r.P, s.r.q)
    floor = np.where(size > 0, np.minimum(1, size), 1)
    found = [primal(s), dual(s, floor), gap(s, floor)]
    return np.stack([f[0] for f in found]), TOLERANCE * 1.001 + np.stack([f[1] for f in found])


def proves_infeasible(s: Stack) -> Array:
    """(C1): the multipliers add up to 0 x <= -t."""
    r = s.r
    up, down = positive(s.z_box), positive(-s.z_box)
    bounds = np.where(s.above, up * r.ub, 0) - np.where(s.below, down * r.lb, 0)
    claim = -(dot(r.b, s.y) + dot(r.h, s.z) + bounds.sum(axis=-1))
    terms = abs(s.y * r.b).sum(axis=-1) + abs(s.z * r.h).sum(axis=-1) + abs(bounds).sum(axis=-1)
    A_rows, G_rows = abs(r.A).max(axis=-1, initial=0), abs(r.G).max(axis=-1, initial=0)
    pull = largest(abs(s.y) * A_rows, abs(s.z) * G_rows, s.z_box)
    rest = abs(times_transposed(r.A, s.y) + times_transposed(r.G, s.z) + s.z_box)
    pulls = times_transposed(abs(r.A), abs(s.y)) + times_transposed(abs(r.G), s.z) + abs(s.z_box)
    signs = (s.z >= 0).all(axis=-1) & np.where(s.limited, True, s.z == 0).all(axis=-1)
    signs &= (np.where(s.above, 0, up) == 0).all(axis=-1) & (np.where(s.below, 0, down) == 0).all(axis=-1)
    allowed = (1.01 * PROOF * np.minimum(claim, pull))[:, None] + 2 * ROUNDING * pulls
    none = (rest <= allowed).all(axis=-1)
    return np.asarray(signs & (claim > PROOF / 1.01 * terms) & none & np.isfinite(claim))


def proves_unbounded(s: Stack) -> Array:
    """(C2): the objective falls along x, and no row stops it.

    Both are relative to the sizes of rows and ray with clear descent, or term by term.
    """
    r, d = s.r, s.x
    length = largest(d)
    fall, terms = -dot(r.q, d), dot(abs(r.q), abs(d))
    moved = {
        "P": abs(times(r.P, d)),
        "A": abs(times(r.A, d)),
        "G": np.where(s.limited, positive(times(r.G, d)), 0),
    }

    def level(sizes: Callable[[Array], Array]) -> Array:
        rows = [
            (
                value
                <= 1.01 * PROOF * sizes(getattr(r, name)) + ROUNDING * times(abs(getattr(r, name)), abs(d))
            )
            for name, value in moved.items()
        ]
        return np.asarray(np.concatenate(rows, axis=-1).all(axis=-1))

    against = largest(np.where(s.above, positive(d), 0), np.where(s.below, positive(-d), 0))
    by_size = level(lambda rows: abs(rows).max(axis=-1, initial=0) * length[:, None])
    by_size &= (against <= 1.01 * PROOF * length) & (fall > DESCENT / 1.01 * largest(r.q) * length)
    by_terms = level(lambda rows: times(abs(rows), abs(d))) & (against == 0) & (fall > DESCENT / 1.01 * terms)
    return np.asarray((by_size | by_terms) & (length > 0) & np.isfinite(length))


def least_curvature(programs: Program) -> tuple[Array, float]:
    """The least eigenvalue of P with a unit diagonal, and what rounding to P's own type makes of zero."""
    P: Array = np.asarray(programs.P, np.longdouble)  # its exponents reach beyond denormal numbers
    P = (P + P.swapaxes(-1, -2)) / 2
    sizes = abs(P).max(axis=(-1, -2))
    diagonal = np.diagonal(P, axis1=-2, axis2=-1)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, np.where(sizes > 0, sizes, 1)[:, None]))
    unit = np.clip(P * scale[:, :, None] * scale[:, None, :], -1e100, 1e100).astype(np.float64)
    values = np.linalg.eigvalsh(unit)[:, 0]
    kind = programs.P.dtype if programs.P.dtype == np.float32 else np.dtype(np.float64)
    return values, 8 * P.shape[-1] * float(np.finfo(kind).eps)


def judged(answers: Answers) -> list[str]:
    """For each answer what is false about it, or nothing."""
    s = Stack.of(answers)
    with np.errstate(all="ignore"):
        found, allowed = residuals(s)
        failed = np.any(~(found <= allowed), axis=0).tolist()
        infeasible, unbounded = proves_infeasible(s), proves_unbounded(s)
    curvature, rounding = least_curvature(answers.programs)
    words = []
    for i, status in enumerate(answers.status.tolist()):
        word = ""
        if status == -1:
            word = f"raised {answers.error}"
        elif status == Status.SOLVED and failed[i]:
            word = "SOLVED, residuals " + " ".join(f"{float(value):.1e}" for value in found[:, i])
        elif status == Status.SOLVED and curvature[i] < LEAST_CURVATURE:
            word = f"SOLVED, eigenvalue {curvature[i]:.1e}"
        elif status == Status.PRIMAL_INFEASIBLE and not infeasible[i]:
            word = "PRIMAL_INFEASIBLE, no proof"
        elif status == Status.DUAL_INFEASIBLE and not unbounded[i]:
            word = "DUAL_INFEASIBLE, no proof"
        elif status == Status.NONCONVEX and curvature[i] > -rounding:
            word = f"NONCONVEX, eigenvalue {curvature[i]:.1e}"
        elif status == Status.INVALID_DATA:
            word = "INVALID_DATA"
        words.append(word)
    return words
