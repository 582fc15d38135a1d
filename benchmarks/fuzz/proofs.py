"""Proves a status from the problem alone, in extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from altdiff import Status

from benchmarks.fuzz.problems import Case
from benchmarks.hostile.checks import extended, largest, residuals_of
from benchmarks.hostile.problems import Point

TOLERANCE = 1e-8  # what SOLVED promises by default
PROOF = 1e-8  # of a certificate, relative to what it claims


def solved(case: Case, s: Any) -> bool:
    """(R1), (R2) and (R3) of docs/math.md."""
    parts = (case.P, case.q, case.G, case.h, case.A, case.b, case.lb, case.ub)
    return residuals_of(parts, Point(s.x, s.y, s.z, s.z_box)).within(TOLERANCE)


def primal_infeasible(case: Case, s: Any) -> bool:
    """y, z >= 0 and z_box add up to 0 x <= -1."""
    y, z, box = map(extended, (s.y, s.z, s.z_box))
    left = extended(case.A).T @ y + extended(case.G).T @ z + box
    up, down = np.maximum(box, 0), np.minimum(box, 0)
    if (up[~np.isfinite(case.ub)] != 0).any() or (down[~np.isfinite(case.lb)] != 0).any() or (z < 0).any():
        return False
    pressed_up, pressed_down = up > 0, down < 0
    claim = -(
        extended(case.b) @ y
        + extended(case.h) @ z
        + up[pressed_up] @ extended(case.ub)[pressed_up]
        + down[pressed_down] @ extended(case.lb)[pressed_down]
    )
    return bool(claim > 0 and largest(left) <= PROOF * float(claim))


def dual_infeasible(case: Case, s: Any) -> bool:
    """x is a ray of the feasible set along which the objective falls, without curvature."""
    d = extended(s.x)
    fall = -float(extended(case.q) @ d)
    against = (
        extended(case.P) @ d,
        extended(case.A) @ d,
        np.maximum(extended(case.G) @ d, 0),
        np.maximum(d, 0)[np.isfinite(case.ub)],
        np.minimum(d, 0)[np.isfinite(case.lb)],
    )
    return fall > 0 and largest(*against) <= PROOF * fall


def nonconvex(case: Case) -> bool:
    """A negative eigenvalue, with the diagonal brought to one."""
    P = (case.P + case.P.T) / 2
    diagonal = np.diag(P)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, max(largest(extended(P)), 1e-300)))
    return bool(np.linalg.eigvalsh(P * np.outer(scale, scale))[0] < -1e-8)


def proved(case: Case, s: Any) -> bool | None:
    """Whether the status is right; None if it claims nothing."""
    if s.status is Status.SOLVED:
        return solved(case, s)
    if s.status is Status.PRIMAL_INFEASIBLE:
        return primal_infeasible(case, s)
    if s.status is Status.DUAL_INFEASIBLE:
        return dual_infeasible(case, s)
    if s.status is Status.NONCONVEX:
        return nonconvex(case)
    return None
