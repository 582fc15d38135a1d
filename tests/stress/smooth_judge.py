"""The optimality conditions of a smooth program in extended precision, with slopes written again.

What one digit of M x - offset does to a slope is forgiven: next to the end of a domain no x has a residual
that is smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.stress.programs import Array
from tests.stress.smooth_programs import DOMAINS, LSE, Part, Smooth

EPS = np.finfo(np.float64).eps
TOLERANCE = 1e-8


def _sigmoid(t: Array) -> Array:
    e = np.exp(-np.abs(t))
    return np.where(t > 0, 1 / (1 + e), e / (1 + e))


SLOPES: dict[str, Callable[[Array], Array]] = {
    "square": lambda t: t,
    "entropy": lambda t: np.log(t) + 1,
    "-log": lambda t: -1 / t,
    "softplus": _sigmoid,
    "exp": np.exp,
    "pseudo-huber": lambda t: t / np.sqrt(1 + t * t),
    "binary entropy": lambda t: np.log(t) - np.log1p(-t),
}


def slope(part: Part, t: Array) -> Array:
    """d(term) / dt."""
    weight = np.asarray(part.weight, np.longdouble)
    if part.kind == LSE:
        p = np.exp(t - t.max())
        return np.asarray(weight[0] * p / p.sum())
    if part.kind == "power":
        return np.asarray(weight * part.exponent * np.sign(t) * np.abs(t) ** np.longdouble(part.exponent - 1))
    with np.errstate(all="ignore"):
        return np.where(weight > 0, weight * SLOPES[part.kind](t), 0)


def gradient(part: Part, x: Array) -> tuple[Array, Array, float]:
    """Of a term: its gradient, what a digit of t is to it, and how far t is outside the domain."""
    M = np.eye(x.size, dtype=np.longdouble) if part.M is None else np.asarray(part.M, np.longdouble)
    offset = np.asarray(part.offset, np.longdouble)
    t = M @ x - offset
    digit = 4 * EPS * (np.abs(M) @ np.abs(x) + np.abs(offset))
    low, high = DOMAINS.get(part.kind, (-np.inf, np.inf))
    there = np.asarray(part.weight) > 0 if part.kind != LSE else np.ones(t.shape, dtype=bool)
    outside = np.where(there, np.maximum(low - t, t - high) - digit, 0).max(initial=0)
    # Where a digit reaches the end, the slope may be anything between here and there.
    inside = np.clip(t, np.nextafter(low, 1), np.nextafter(high, 0))
    ends = [np.clip(t + sign * digit, np.nextafter(low, 1), np.nextafter(high, 0)) for sign in (-1, 1)]
    spread = np.abs(slope(part, ends[1]) - slope(part, ends[0]))
    at_end = there & ((t - digit <= low) | (t + digit >= high))
    forgiven = (
        np.abs(M.T) @ np.where(at_end, np.inf, spread) if not at_end.any() else _unbounded(M, at_end, spread)
    )
    return M.T @ slope(part, inside), forgiven, float(outside)


def _unbounded(M: Array, at_end: Array, spread: Array) -> Array:
    forgiven = np.abs(M.T) @ np.where(at_end, 0, spread)
    return np.where((np.abs(M[at_end]) > 0).any(axis=0), np.inf, forgiven)


def residual(program: Smooth, s: Any) -> float:
    """The largest of the relative residuals; NaN is infinite."""
    x, y, z, z_box = (np.asarray(getattr(s, name), np.longdouble) for name in ("x", "y", "z", "z_box"))
    g = np.asarray(program.P, np.longdouble) @ x + program.q
    forgiven, outside = 4 * EPS * np.abs(g), 0.0
    for part in program.parts:
        own, digits, beyond = gradient(part, x)
        g, forgiven, outside = g + own, forgiven + digits + 4 * EPS * np.abs(own), max(outside, beyond)
    c = {name: np.asarray(value, np.longdouble) for name, value in program.constraints.items()}
    forces: list[Array] = [g, z_box]
    primal: list[Array] = [np.zeros(1)]
    products: list[Array] = [np.zeros(1)]
    scales: list[Array] = [np.ones(1), x]
    if "A" in c:
        forces.append(c["A"].T @ y)
        primal.append(c["A"] @ x - c["b"])
        scales += [c["A"] @ x, c["b"]]
    if "G" in c:
        forces.append(c["G"].T @ z)
        primal.append(np.minimum(c["h"] - c["G"] @ x, 0))
        products.append(z * (c["h"] - c["G"] @ x))
        scales.append(c["G"] @ x)
    for name, sign in (("ub", 1), ("lb", -1)):
        push = np.maximum(sign * z_box, 0)
        slack = sign * (c[name] - x) if name in c else np.full(x.size, np.inf)
        primal.append(np.minimum(slack, 0))
        products.append(np.where(push > 0, push * slack, 0))
    size = max(1.0, *(_largest(force) for force in forces))
    dual = np.maximum(np.abs(np.sum(forces, axis=0)) - forgiven, 0)
    worst = [
        outside,
        _largest(*primal) / _largest(*scales),
        _largest(dual) / size,
        float(np.maximum(-z, 0).max(initial=0)) / size,
        _largest(*products) / max(1.0, size * _largest(*scales)),
    ]
    return float(np.nan_to_num(np.max(worst), nan=np.inf))


def _largest(*arrays: Array) -> float:
    return float(max(np.abs(array).max(initial=0) for array in arrays))
