"""A linear system that is steered back to zero, stage by stage, within bounds.

Stage k has the variables z_k = (x_{k+1}, u_k) and the rows x_{k+1} - F x_k - B u_k = w_k. P is diagonal, all
variables are bounded, and a stage meets its two neighbours only: the cost of a good solver grows with n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from altdiff import QuadraticProgram
from numpy.typing import NDArray

from benchmarks.hostile.checks import residuals_of
from benchmarks.hostile.problems import Point
from benchmarks.sets.solvers import whole

Array = NDArray[np.float64]

STATES, INPUTS = 4, 2
STAGE = STATES + INPUTS  # variables of a stage
WEIGHTS = (*[1.0] * STATES, *[0.1] * INPUTS)
LIMITS = (*[5.0] * STATES, *[0.5] * INPUTS)
START = 3.0  # size of the first state
COST = 0.1  # size of q
TINY = 2  # stages of the chain that goes through a library first, so that whatever loads lazily is loaded


@dataclass(frozen=True)
class Chain:
    """Which chain: cheap to hand to another process, which makes the same one."""

    stages: int
    disturbance: float = 0.1  # size of w: the larger, the more inputs stand at their bounds
    seed: int = 0

    @property
    def n(self) -> int:
        """Variables."""
        return STAGE * self.stages

    def program(self) -> QuadraticProgram:
        """The problem."""
        rng = np.random.default_rng(self.seed)
        F = np.eye(STATES) + 0.1 * rng.normal(size=(STATES, STATES))
        F /= max(1.0, np.abs(np.linalg.eigvals(F)).max())  # or the states of a long chain explode
        B = rng.normal(size=(STATES, INPUTS))
        w = np.zeros(STATES * self.stages)
        w[:STATES] = F @ (START * rng.normal(size=STATES))
        w += self.disturbance * rng.normal(size=w.size)
        limits = np.tile(LIMITS, self.stages)
        return QuadraticProgram(
            P=sp.diags_array(np.tile(WEIGHTS, self.stages), format="csc"),
            q=COST * rng.normal(size=self.n),
            A=dynamics(F, B, self.stages),
            b=w,
            lb=-limits,
            ub=limits,
        )

    def cotangent(self) -> Array:
        """The x_bar of all measurements."""
        return np.random.default_rng(self.seed + 1).normal(size=self.n)


def chain_of(n: int, disturbance: float) -> Chain:
    """The chain with about n variables."""
    return Chain(max(1, round(n / STAGE)), disturbance)


def dynamics(F: Array, B: Array, stages: int) -> Any:
    """The rows of all stages: (I, -B) on the diagonal and (-F, 0) beside it, without stored zeros."""
    own = np.hstack([np.eye(STATES), -B])
    before = np.hstack([-F, np.zeros((STATES, INPUTS))])
    return blocks(own, stages, 0) + blocks(before, stages, -1)


def blocks(block: Array, count: int, diagonal: int) -> Any:
    """Copies of a block along a diagonal. The format is named since scipy's own choice stores zeros."""
    return sp.kron(sp.eye_array(count, k=diagonal), sp.csc_array(block), format="csc")


def worst_residual(qp: QuadraticProgram, point: Point) -> float:
    """The largest of (R1), (R2) and (R3), recomputed from the data."""
    full = whole(qp)
    parts = (full.P, full.q, full.G, full.h, full.A, full.b, full.lb, full.ub)
    return residuals_of(parts, point).worst
