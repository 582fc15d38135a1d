"""The paper's Algorithm 1 as such: a fixed penalty, a zero start, the Jacobian beside the iteration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from altdiff._arrays import real_array
from altdiff._directions import block, direction
from altdiff._fields import FIELDS, MATRICES
from altdiff._native import core
from altdiff._objectives import Objective
from altdiff._paper_terms import differentiate_terms
from altdiff._problem import make_problem
from altdiff._settings import flag_setting, integer_setting, real_setting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from altdiff._arrays import Array, MatrixLike
    from altdiff._binding import Blocks, NativeObjective
    from altdiff._problem import Problem

_STOPPING = ("paper", "residual")


class Entropy:
    """The objective -y'x + sum x log x of the paper's softmax layer, in place of P and q."""

    def __init__(self, y: ArrayLike) -> None:
        self.y = real_array("y", y)
        if self.y.ndim != 1:
            raise ValueError(f"y must have shape (n), got {self.y.shape}")


@dataclass(frozen=True, eq=False)
class AlternatingResult:
    """What `alternating_differentiation` returns."""

    x: Array  # the last iterate (n)
    y: Array  # multipliers of A x = b (p)
    z: Array  # multipliers of G x <= h (m)
    jacobian: Array  # dx / d(wrt), (n, size of the field); with a tangent, its image (n)
    iterations: int  # rounds
    converged: bool  # the stopping rule was met within max_iterations and time_limit
    trace: dict[str, Array] | None  # per round: x_norm, jacobian_norm, the two residuals, active_rows


def alternating_differentiation(
    P: MatrixLike | None = None,
    q: ArrayLike | None = None,
    G: MatrixLike | None = None,
    h: ArrayLike | None = None,
    A: MatrixLike | None = None,
    b: ArrayLike | None = None,
    lb: ArrayLike | None = None,
    ub: ArrayLike | None = None,
    *,
    wrt: str = "b",
    tangent: Mapping[str, MatrixLike] | None = None,
    rho: float = 1.0,
    tolerance: float = 1e-3,
    stopping: str = "paper",
    max_iterations: int = 100_000,
    trace: bool = False,
    time_limit: float | None = None,
    objective: Entropy | Objective | None = None,
) -> AlternatingResult:
    """Runs the paper's Algorithm 1 on one instance.

    `wrt` names the vector field of the Jacobian; `tangent`, a mapping from fields to directions, replaces it
    by one directional derivative. `stopping="paper"` stops when x moves by less than `tolerance`, relatively,
    which may be far from the solution; "residual" stops on the relative residuals. After `time_limit` seconds
    no round begins: the last one is returned, and has not converged. `objective`, an `Entropy`
    or a sum of the terms of `solve_convex`, replaces P and q; `wrt` may then also name a number that a single
    term has, and the Jacobian is (n, ...) with the shape of the number.
    """
    if stopping not in _STOPPING:
        raise ValueError(f"stopping must be one of {', '.join(_STOPPING)}, got {stopping!r}")
    arguments = {"P": P, "q": q, "G": G, "h": h, "A": A, "b": b, "lb": lb, "ub": ub}
    settings = (
        real_setting("rho", rho),
        real_setting("tolerance", tolerance),
        stopping,
        integer_setting("max_iterations", max_iterations),
        flag_setting("trace", trace),
        math.inf if time_limit is None else real_setting("time_limit", time_limit),
    )
    if isinstance(objective, Objective):
        _require_no_quadratic(arguments)
        last, image = differentiate_terms(objective, arguments, wrt, tangent, settings)
        return AlternatingResult(last.x, last.y, last.z, image, last.iterations, last.converged, last.trace)
    linear = "q" if objective is None else "y"
    problem = make_problem(arguments if objective is None else _with_entropy(arguments, objective))
    if problem.batch != ():
        raise ValueError("alternating_differentiation takes one instance, without batch dimensions")
    problem.invalid()
    if tangent is None:
        _require_vector(problem, wrt, linear)
    result = _native(problem, objective).alternating_differentiation(
        ("q" if wrt == linear else wrt) if tangent is None else None,
        None if tangent is None else _blocks(problem, tangent, linear),
        *settings,
    )
    jacobian = result.jacobian if tangent is None else result.jacobian[:, 0]
    if tangent is None and wrt == "y":
        # The core differentiates with respect to the linear term, which is -y.
        jacobian = -jacobian
    return AlternatingResult(
        result.x, result.y, result.z, jacobian, result.iterations, result.converged, result.trace
    )


def _with_entropy(
    arguments: Mapping[str, MatrixLike | None], objective: Entropy
) -> dict[str, MatrixLike | None]:
    """The constraints with -y'x as a stand-in for the objective, so that one place checks them."""
    if not isinstance(objective, Entropy):
        raise TypeError(
            f"objective must be an altdiff.Objective or an altdiff.Entropy, got {type(objective).__name__}"
        )
    _require_no_quadratic(arguments)
    n = objective.y.size
    if not np.isfinite(objective.y).all():
        raise ValueError("y must not hold NaN or an infinity")
    return {**arguments, "P": np.zeros((n, n)), "q": -objective.y}


def _require_no_quadratic(arguments: Mapping[str, MatrixLike | None]) -> None:
    if arguments["P"] is not None or arguments["q"] is not None:
        raise ValueError("objective replaces P and q: leave them out")


def _native(problem: Problem, objective: Entropy | None) -> NativeObjective:
    P, q, G, h, A, b, lb, ub = problem.instance(())
    if objective is not None:
        entropy = core.SparseEntropyProblem if problem.sparse else core.DenseEntropyProblem
        return entropy(objective.y, G, h, A, b, lb, ub)
    quadratic = core.SparseProblem if problem.sparse else core.DenseProblem
    return quadratic(P, q, G, h, A, b, lb, ub)


def _require_vector(problem: Problem, wrt: str, linear: str) -> None:
    vectors = [linear, *(name for name in FIELDS if name not in MATRICES and name != "q")]
    if wrt not in vectors:
        raise ValueError(f"wrt must be one of {', '.join(vectors)}, got {wrt!r}; use tangent for a matrix")
    if wrt != linear and problem.values[wrt] is None:
        raise ValueError(f"wrt is {wrt!r}, but {wrt} is absent")


def _blocks(problem: Problem, tangent: Mapping[str, MatrixLike], linear: str) -> Blocks:
    if not isinstance(tangent, Mapping):
        raise TypeError(f"tangent must map fields to directions, got {type(tangent).__name__}")
    names = FIELDS if linear == "q" else (linear, *FIELDS[2:])
    unknown = [name for name in tangent if name not in names]
    if unknown:
        raise ValueError(f"tangent must name fields among {', '.join(names)}, got {unknown[0]!r}")
    directions = {name: direction(problem, name, tangent.get(name)) for name in FIELDS}
    if "y" in tangent:
        # The core takes the tangent of the linear term, which is -y.
        directions["q"] = -np.asarray(direction(problem, "q", tangent["y"]))
    P, q, G, h, A, b, lb, ub = (block(problem, name, directions[name], ()) for name in FIELDS)
    return P, q, G, h, A, b, lb, ub
