"""Random smooth convex programs with a feasible point inside the domain, and what must hold at a solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from altdiff import Linear, LogSumExp, Quadratic, Separable
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from altdiff import Objective

Array: TypeAlias = NDArray[np.float64]

# phi' of each kind, written again so that the check does not rest on the library.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "entropy": lambda t: np.log(t) + 1.0,
    "-log": lambda t: -1.0 / t,
    "softplus": lambda t: np.where(
        t > 0, 1.0 / (1.0 + np.exp(-np.abs(t))), np.exp(-np.abs(t)) / (1.0 + np.exp(-np.abs(t)))
    ),
    "exp": np.exp,
    "pseudo-huber": lambda t: t / np.sqrt(1.0 + t * t),
    "power": lambda t: 3.0 * t * np.abs(t),
    "binary entropy": lambda t: np.log(t) - np.log1p(-t),
}
EXPONENT = 3.0
INTERVALS = {"entropy": (0.0, np.inf), "-log": (0.0, np.inf), "binary entropy": (0.0, 1.0)}
TINY = 1e-300  # next to zero: what is smaller has fewer digits, or none
LARGEST_EXPONENT = 300.0  # beyond it e^(-q / weight) may be more than a double holds
KINDS = (*SLOPES, "log-sum-exp")
LARGEST_SCALE = 300.0
SCALES = {"binary entropy": 300.0}  # beyond that, 1 - x is nothing that a double can tell from zero


@dataclass(frozen=True)
class Instance:
    """A program, and the gradient of its objective."""

    objective: Objective
    gradient: Callable[[Array], Array]
    constraints: dict[str, Any]
    interval: tuple[float, float] = (-np.inf, np.inf)  # the domain of every variable


def random_instance(kind: str, seed: int) -> Instance:
    """One program; its logits have a scale between 1 and LARGEST_SCALE."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = int(rng.integers(2, 21))
    scale = SCALES.get(kind, LARGEST_SCALE) ** rng.uniform()
    q = scale * rng.normal(size=n)
    inside = _point(kind, rng, n)
    mapped = kind not in INTERVALS and rng.uniform() < 0.7
    if kind == "log-sum-exp" or mapped:
        objective, gradient = _with_map(kind, rng, n, scale, q)
    else:
        weight = rng.uniform(0.5, 2.0, size=n)
        exponent = EXPONENT if kind == "power" else None
        objective = Linear(q) + Separable(kind, weight, exponent=exponent)
        gradient = lambda x: q + weight * SLOPES[kind](x)  # noqa: E731
    if kind not in INTERVALS:  # so that there is a minimum
        ridge = 10.0 ** rng.uniform(-3, 0)
        objective, smooth = objective + Quadratic(ridge * np.eye(n)), gradient
        gradient = lambda x: smooth(x) + ridge * x  # noqa: E731
    interval = INTERVALS.get(kind, (-np.inf, np.inf))
    constraints = _constraints(kind, rng, inside)
    if kind == "entropy" and "A" not in constraints and q.min() < -LARGEST_EXPONENT:
        constraints.setdefault("ub", inside + 1.0)  # else the minimiser may be more than a double holds
    return Instance(objective, gradient, constraints, interval)


def _with_map(
    kind: str, rng: np.random.Generator, n: int, scale: float, q: Array
) -> tuple[Objective, Callable[[Array], Array]]:
    """A function of M x - offset, beside a linear term of ordinary size."""
    k = int(rng.integers(1, 2 * n + 1))
    M, q = rng.normal(size=(k, n)) * (scale / n if kind != "exp" else 1.0), q / scale
    offset = M @ rng.normal(size=n) + rng.normal(size=k)
    if kind == "log-sum-exp":

        def gradient(x: Array) -> Array:
            t = M @ x - offset
            p = np.exp(t - t.max())
            return np.asarray(q + M.T @ (p / p.sum()))

        return Linear(q) + LogSumExp(M, offset), gradient
    weight = rng.uniform(0.5, 2.0, size=k)
    objective = Linear(q) + Separable(kind, weight, M, offset, exponent=EXPONENT if kind == "power" else None)
    return objective, lambda x: np.asarray(q + M.T @ (weight * SLOPES[kind](M @ x - offset)))


def _point(kind: str, rng: np.random.Generator, n: int) -> Array:
    if kind == "binary entropy":
        return rng.uniform(0.05, 0.95, size=n)
    if kind in INTERVALS:
        point: Array = rng.uniform(0.1, 1.0, size=n)
        return np.asarray(point / point.sum())
    return rng.normal(size=n)


def _constraints(kind: str, rng: np.random.Generator, inside: Array) -> dict[str, Any]:
    """Some rows of each sort, which the point satisfies."""
    n = inside.size
    p, m = int(rng.integers(0, n // 2 + 1)), int(rng.integers(0, n + 1))
    given: dict[str, Any] = {}
    if p:
        A = rng.normal(size=(p, n))
        if kind in INTERVALS:
            A[0] = 1.0
        given |= {"A": A, "b": A @ inside}
    if m:
        G = rng.normal(size=(m, n))
        given |= {"G": G, "h": G @ inside + 0.1 * rng.uniform(size=m) * np.abs(G @ inside)}
    if kind == "-log" or rng.uniform() < 0.5:  # q may be negative, and -log has no other end
        given["ub"] = inside + rng.uniform(0.01, 1.0, size=n)
    if rng.uniform() < 0.5:
        given["lb"] = inside - rng.uniform(0.01, 1.0, size=n) * (inside if kind in INTERVALS else 1.0)
    return given


def kkt_residual(instance: Instance, solution: Any) -> float:
    """The largest of the relative residuals, recomputed from the data; NaN is infinite."""
    low, high = instance.interval
    x, y, z, z_box = solution.x, solution.y, solution.z, solution.z_box
    if not ((low <= x) & (x <= high)).all():
        return np.inf
    # An x that was rounded to the end of the domain is judged by its neighbour inside.
    x = np.clip(x, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
    given = instance.constraints
    g = instance.gradient(x)
    forces = [g, z_box]
    errors = [0.0, float(-z.min(initial=0.0))]
    products = [np.zeros(1)]
    if "A" in given:
        forces.append(given["A"].T @ y)
        errors.append(_relative(given["A"] @ x - given["b"], given["b"], np.abs(given["A"]) @ np.abs(x)))
    if "G" in given:
        forces.append(given["G"].T @ z)
        slack = given["h"] - given["G"] @ x
        errors.append(_relative(np.minimum(slack, 0.0), given["h"], np.abs(given["G"]) @ np.abs(x)))
        products.append(z * slack)
    for name, sign in (("ub", 1.0), ("lb", -1.0)):
        push = np.maximum(sign * z_box, 0.0)
        if name not in given:
            errors.append(float(push.max()))
            continue
        slack = sign * (given[name] - x)
        errors.append(_relative(np.minimum(slack, 0.0), given[name]))
        products.append(push * slack)
    errors.append(_relative(_beyond_rounding(instance, x, np.sum(forces, axis=0)), *forces))
    complementarity = max(float(np.abs(p).max(initial=0.0)) for p in products)
    errors.append(complementarity / (1.0 + float(np.abs(g * x).max())))
    return float(np.nan_to_num(np.max(errors), nan=np.inf))


def _beyond_rounding(instance: Instance, x: Array, residual: Array) -> Array:
    """What is left of the residual after what the last digit of x is to it.

    Next to the end of a domain no x has a small residual; there it must only push towards the end.
    """
    low, high = instance.interval
    below, above = np.nextafter(x, -np.inf), np.nextafter(x, np.inf)
    at_low, at_high = x <= low + TINY, above >= high
    below, above = np.where(at_low, x, below), np.where(at_high, x, above)
    left = np.maximum(np.abs(residual) - np.abs(instance.gradient(above) - instance.gradient(below)), 0.0)
    return np.where((at_low & (residual > 0)) | (at_high & (residual < 0)), 0.0, left)


def _relative(residual: Array, *scales: Array) -> float:
    largest = max(float(np.abs(scale).max(initial=0.0)) for scale in scales)
    return float(np.abs(residual).max(initial=0.0)) / (1.0 + largest)
