"""Small convex programs of every built-in kind, with constraints of every sort that bind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from altdiff import Linear, LogSumExp, Objective, Quadratic, Separable

from helpers.problems import Array

N, K = 5, 4


@dataclass(frozen=True)
class Example:
    """An objective as a function of its numbers, and the numbers."""

    numbers: dict[str, Array]
    build: Callable[..., Objective]


def example(name: str, seed: int = 0) -> Example:
    """The example with this name, one of EXAMPLES."""
    rng = np.random.default_rng([seed, EXAMPLES.index(name)])
    if name == "quadratic":
        L = rng.normal(size=(N, N))
        return Example({"P": L @ L.T / N + 0.2 * np.eye(N), "q": rng.normal(size=N)}, Quadratic)
    if name == "log-sum-exp":
        numbers = {"M": rng.normal(size=(K, N)), "offset": rng.normal(size=K), "weight": np.array(1.5)}
        return Example(
            {**numbers, "ridge": np.array(0.3)},
            lambda M, offset, weight, ridge: LogSumExp(M, offset, weight) + Separable("square", ridge),
        )
    kind, _, mapped = name.partition(" with a map")
    exponent = 2.5 if kind == "power" else None
    rows = K if mapped != "" or name.endswith("map") else N
    weight, q = rng.uniform(0.5, 1.5, size=rows), rng.normal(size=N)
    if name.endswith("map"):
        positive = kind in ("entropy", "-log", "binary entropy")
        M = rng.uniform(0.05, 0.2, size=(K, N)) if positive else rng.normal(size=(K, N))
        offset = -0.05 * rng.uniform(size=K) if positive else rng.normal(size=K)
        numbers = {"q": q, "weight": weight, "M": M, "offset": offset, "ridge": np.array(0.4)}
        return Example(
            numbers,
            lambda q, weight, M, offset, ridge: (
                Linear(q) + Separable(kind, weight, M, offset, exponent=exponent) + Separable("square", ridge)
            ),
        )
    offset = np.full(N, -0.02) if kind in ("entropy", "-log", "binary entropy") else rng.normal(size=N)
    return Example(
        {"q": q, "weight": weight, "offset": offset},
        lambda q, weight, offset: Linear(q) + Separable(kind, weight, None, offset, exponent=exponent),
    )


_KINDS = ("square", "entropy", "-log", "softplus", "exp", "pseudo-huber", "power", "binary entropy")
EXAMPLES = ("quadratic", "log-sum-exp", *_KINDS, *(f"{kind} with a map" for kind in _KINDS))


def binding_constraints(seed: int = 0) -> dict[str, Array]:
    """One equality, two strips of which one side binds as a rule, and bounds, around a point of (0, 1)."""
    rng = np.random.default_rng([seed, 99])
    inside = rng.uniform(0.3, 0.6, size=N)
    A, strips = rng.normal(size=(1, N)), rng.normal(size=(2, N))
    G = np.concatenate([strips, -strips])
    return {
        "G": G,
        "h": G @ inside + np.array([0.01, 0.02, 0.02, 0.03]),
        "A": A,
        "b": A @ inside,
        "lb": inside - rng.uniform(0.1, 0.25, size=N),
        "ub": inside + rng.uniform(0.1, 0.25, size=N),
    }


def parted(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The objective's numbers, and the constraints."""
    names: tuple[str, ...] = ("G", "h", "A", "b", "lb", "ub")
    constraints = {name: values[name] for name in names if name in values}
    return {name: value for name, value in values.items() if name not in constraints}, constraints
