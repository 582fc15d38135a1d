"""Random sums of terms under random constraints: of many sizes, flat, steep, at the end of their domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from altdiff import ConvexSolution, solve_convex

from helpers.wild_terms import ENDS, KINDS, Array, Term, wide


@dataclass
class Program:
    """A program, with a point that satisfies its constraints inside the domain of f, if it has one."""

    terms: list[Term]
    constraints: dict[str, Array]
    known: Array

    def solve(self, **settings: Any) -> ConvexSolution:
        """By altdiff."""
        objective: Any = sum(term.build() for term in self.terms)
        given: dict[str, Any] = {**self.constraints, **settings}
        return solve_convex(objective, **given)

    def value(self, x: Array) -> Any:
        """f."""
        return sum((term.value(x) for term in self.terms), wide(0))


def some_rows(rng: np.random.Generator, k: int, n: int) -> Array:
    """A map: dense or sparse, perhaps with zero rows, of some size."""
    M = rng.normal(size=(k, n)) * (rng.random((k, n)) < rng.choice([1.0, 0.6]))
    M[rng.random(k) < rng.choice([0.0, 0.0, 0.2])] = 0
    if k > 1 and rng.random() < 0.1:
        M[-1] = M[0]
    return M * 10.0 ** rng.choice([0, 0, 0, -2, 1])


def some_weight(rng: np.random.Generator, k: int) -> Array | None:
    """None, or weights of some size, perhaps with zeros."""
    style = rng.integers(5)
    if style == 0:
        return None
    weight = rng.exponential(size=k) * 10.0 ** rng.choice([0, 0, -3, 3])
    if style == 1:
        weight[rng.random(k) < 0.4] = 0
    if style == 2 and rng.random() < 0.3:
        weight[:] = 0
    return weight


def some_separable(rng: np.random.Generator, x: Array) -> Term:
    """A separable term that is finite at x."""
    kind = str(rng.choice(KINDS))
    numbers: dict[str, Array] = {}
    if rng.random() < 0.6:
        numbers["M"] = some_rows(rng, int(rng.integers(1, 6)), x.size)
    Mx = numbers["M"] @ x if "M" in numbers else x
    k = len(Mx)
    weight = some_weight(rng, k)
    if weight is not None or "M" not in numbers:
        numbers["weight"] = np.ones(k) if weight is None else weight
    t = rng.normal(size=k) * rng.choice([1.0, 5.0, 20.0])
    if kind in ENDS:
        t = rng.random(k) if kind == "binary entropy" else rng.exponential(size=k)
        t *= rng.choice([1.0, 1.0, 1e-4])
        at_end = (rng.random(k) < 0.5) & (Mx == 0)
        if kind != "-log" and "M" in numbers:
            t[at_end & (abs(numbers["M"]).max(axis=1) == 0)] = 0  # a constant row at the end of the domain
    if kind in ENDS or rng.random() < 0.6 or kind == "exp":  # e^800 is no number
        numbers["offset"] = Mx - t
    return Term(kind, numbers, float(rng.choice([2, 2.5, 3, 4, 6])) if kind == "power" else None)


def some_term(rng: np.random.Generator, x: Array) -> Term:
    """Any term that is finite at x."""
    n = x.size
    style = rng.random()
    if style < 0.15:
        return Term("linear", {"q": rng.normal(size=n) * 10.0 ** rng.choice([0, 0, -3, 2])})
    if style < 0.25:
        root = rng.normal(size=(int(rng.integers(0, n + 1)), n))
        numbers = {"P": root.T @ root * 10.0 ** rng.choice([0, -3, 2])}
        if rng.random() < 0.5:
            numbers["q"] = rng.normal(size=n)
        return Term("quadratic", numbers)
    if style < 0.4:
        k = int(rng.integers(1, 6))
        numbers = {"M": some_rows(rng, k, n), "offset": rng.normal(size=k) * rng.choice([1.0, 30.0, 300.0])}
        if (weight := some_weight(rng, 1)) is not None:
            numbers["weight"] = weight[0]
        return Term("log-sum-exp", numbers)
    return some_separable(rng, x)


def some_constraints(rng: np.random.Generator, x: Array) -> dict[str, Array]:
    """Constraints that x satisfies."""
    n = x.size
    found: dict[str, Array] = {}
    if rng.random() < 0.5:
        m = int(rng.integers(1, 5))
        found["G"] = rng.normal(size=(m, n)) * 10.0 ** rng.choice([0, 0, -2, 2])
        found["G"][rng.random(m) < 0.05] = 0
        found["h"] = found["G"] @ x + rng.exponential(size=m) * (rng.random(m) < 0.8)
    if n > 1 and rng.random() < 0.4:
        p = int(rng.integers(1, n))
        found["A"] = rng.normal(size=(p, n))
        if p > 1 and rng.random() < 0.2:
            found["A"][-1] = found["A"][0]
        found["b"] = found["A"] @ x
    for name, sign in (("lb", -1), ("ub", 1)):
        if rng.random() < 0.5:
            distance = rng.exponential(size=n) * (rng.random(n) < 0.8) * 10.0 ** rng.choice([0, 0, 1, 6])
            found[name] = np.where(rng.random(n) < 0.2, sign * np.inf, x + sign * distance)
    return found


def random_sum(seed: int) -> Program:
    """One to four terms, under random constraints."""
    rng = np.random.default_rng([seed, 18])
    x = rng.normal(size=int(rng.integers(1, 7))) * rng.choice([1.0, 1.0, 0.01, 100.0])
    terms = [some_term(rng, x) for _ in range(rng.integers(1, 5))]
    return Program(terms, some_constraints(rng, x), x)


def spread_logits(seed: int) -> Program:
    """A log-sum-exp whose logits are far apart; bounds, a ridge or rows see to it that there is a minimum."""
    rng = np.random.default_rng([seed, 5])
    n = int(rng.integers(1, 9))
    k = int(rng.integers(1, 17))
    x = rng.normal(size=n)
    size = 10.0 ** rng.uniform(0, 4)
    M = rng.normal(size=(k, n)) * 10.0 ** rng.uniform(-2, 1)
    if k > 1 and rng.random() < 0.1:
        M[:] = M[0]
    numbers = {"M": M, "offset": rng.normal(size=k) * size}
    if rng.random() < 0.3:
        numbers["weight"] = 10.0 ** rng.uniform(-4, 4)
    terms = [Term("log-sum-exp", numbers)]
    constraints = some_constraints(rng, x)
    if rng.random() < 0.6:
        terms.append(Term("linear", {"q": rng.normal(size=n) * 10.0 ** rng.uniform(-3, 1)}))
    style = rng.integers(3)
    if style == 0:
        terms.append(Term("square", {"weight": np.full(n, 10.0 ** rng.uniform(-4, 2))}))
    elif style == 1:
        far = 10.0 ** rng.uniform(-1, 6)
        constraints |= {"lb": x - far * rng.random(n), "ub": x + far * rng.random(n)}
    else:
        terms.append(Term("log-sum-exp", {"M": np.concatenate([np.eye(n), -np.eye(n)])}))
        terms = [t for t in terms if t.kind != "linear"]
    return Program(terms, constraints, x)
