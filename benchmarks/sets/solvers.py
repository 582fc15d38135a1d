"""One function a solver: a problem in, what became of it out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp
from altdiff import QuadraticProgram, Solution

from benchmarks.hostile.problems import Point

QUICK = 0.5  # seconds of one call of each
TURNS = 7


@dataclass(frozen=True)
class Answer:
    """Seconds are those of the solver alone."""

    status: str
    seconds: float
    objective: float = float("nan")
    iterations: int = 0
    residual: float = float("nan")  # altdiff only: the worst of primal, dual and gap, on the user's data
    degenerate: bool = False
    unique: bool = True
    point: Point | None = None  # what was found, of altdiff and PIQP
    first: float = float("nan")  # seconds of the first call, where there were several


Solver = Callable[[QuadraticProgram, float], Answer]


def with_altdiff(qp: QuadraticProgram, time_limit: float) -> Answer:
    """Default settings."""
    start = time.perf_counter()
    solution = altdiff.solve_qp(**qp.fields(), time_limit=time_limit)
    return Answer(
        solution.status.name,
        time.perf_counter() - start,
        solution.objective + qp.constant,
        solution.iterations,
        _worst_residual(solution),
        solution.degenerate,
        solution.unique,
        Point(solution.x, solution.y, solution.z, solution.z_box),
    )


def residual_before_finish(qp: QuadraticProgram, time_limit: float) -> float:
    """Of the interior point alone, at the default tolerance."""
    return _worst_residual(
        altdiff.solve_qp(**qp.fields(), method="interior_point", finish=False, time_limit=time_limit)
    )


def _worst_residual(solution: Solution) -> float:
    return float(max(solution.primal_residual, solution.dual_residual, solution.duality_gap))


@dataclass(frozen=True)
class Whole:
    """A problem with every block, if empty, and sparse matrices."""

    P: sp.csc_matrix
    q: np.ndarray
    G: sp.csc_matrix
    h: np.ndarray
    A: sp.csc_matrix
    b: np.ndarray
    lb: np.ndarray
    ub: np.ndarray


def whole(qp: QuadraticProgram) -> Whole:
    """Absent rows and bounds filled in."""
    n = qp.q.size
    given = {"G": qp.G, "A": qp.A}
    matrices = {name: sp.csc_matrix((0, n) if m is None else m) for name, m in given.items()}
    return Whole(
        P=sp.csc_matrix(qp.P),
        q=qp.q,
        h=np.zeros(0) if qp.h is None else qp.h,
        b=np.zeros(0) if qp.b is None else qp.b,
        lb=np.full(n, -np.inf) if qp.lb is None else np.broadcast_to(qp.lb, n),
        ub=np.full(n, np.inf) if qp.ub is None else np.broadcast_to(qp.ub, n),
        **matrices,
    )


def with_piqp(qp: QuadraticProgram, time_limit: float) -> Answer:
    """Sparse, to 1e-9."""
    import piqp  # type: ignore[import-not-found]

    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-9
    solver.settings.max_iter = 250
    full = whole(qp)
    start = time.perf_counter()
    solver.setup(full.P, full.q, full.A, full.b, full.G, None, full.h, full.lb, full.ub)
    status = solver.solve()
    seconds = time.perf_counter() - start
    found, info = solver.result, solver.result.info
    point = Point(found.x, found.y, found.z_u - found.z_l, found.z_bu - found.z_bl)
    return Answer(status.name, seconds, info.primal_obj + qp.constant, info.iter, point=point)


def with_clarabel(qp: QuadraticProgram, time_limit: float) -> Answer:
    """Bounds as rows, to 1e-9."""
    import clarabel  # type: ignore[import-not-found]

    full = whole(qp)
    lower, upper = np.flatnonzero(np.isfinite(full.lb)), np.flatnonzero(np.isfinite(full.ub))
    rows, eye = np.flatnonzero(np.isfinite(full.h)), sp.eye(full.q.size, format="csr")
    start = time.perf_counter()
    matrix: Any = sp.vstack([full.A, full.G.tocsr()[rows], -eye[lower], eye[upper]], format="csc")
    limits = np.concatenate([full.b, full.h[rows], -full.lb[lower], full.ub[upper]])
    cones = [clarabel.ZeroConeT(full.b.size), clarabel.NonnegativeConeT(limits.size - full.b.size)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = time_limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    solution = clarabel.DefaultSolver(
        sp.triu(full.P).tocsc(), full.q, matrix, limits, cones, settings
    ).solve()
    seconds = time.perf_counter() - start
    return Answer(str(solution.status), seconds, solution.obj_val + qp.constant, solution.iterations)


SOLVERS: dict[str, Solver] = {"altdiff": with_altdiff, "piqp": with_piqp, "clarabel": with_clarabel}


def answers_in_turns(qp: QuadraticProgram, names: list[str], time_limit: float) -> dict[str, Answer]:
    """What each solver says. Quick ones are asked again, in turns: single calls are too noisy to compare."""
    first = {name: SOLVERS[name](qp, time_limit) for name in names}
    if sum(answer.seconds for answer in first.values()) > QUICK:
        return {name: replace(answer, first=answer.seconds) for name, answer in first.items()}
    turns = [{name: SOLVERS[name](qp, time_limit).seconds for name in names} for _ in range(TURNS)]
    return {
        name: replace(answer, first=answer.seconds, seconds=median(turn[name] for turn in turns))
        for name, answer in first.items()
    }
