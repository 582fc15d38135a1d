"""Random sums of the built-in terms, feasible inside their domains and bounded below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import altdiff
import numpy as np

from tests.stress.programs import Array, Rng

DOMAINS = {"entropy": (0.0, np.inf), "-log": (0.0, np.inf), "binary entropy": (0.0, 1.0)}
SEPARABLE = ("square", "entropy", "-log", "softplus", "exp", "pseudo-huber", "power", "binary entropy")
LSE = "log-sum-exp"
GROUP = 8  # programs that differ in their numbers alone
# sums: without maps; maps: with; zero rows: of M; edge: such rows at the end of a domain; zero weights: half
# or all; flat: as good as constant; spread: logits up to 1e4; tight: little room; scaled: 1e-6 to 1e6.
STRUCTURES = ("sums", "maps", "zero-rows", "edge", "zero-weights", "flat", "spread", "tight", "scaled")


@dataclass
class Part:
    """One term: its kind, and numbers with or without a leading dimension."""

    kind: str
    weight: Array
    M: Array | None
    offset: Array
    exponent: float = 0.0

    def term(self) -> Any:
        """The library's."""
        if self.kind == LSE:
            return altdiff.LogSumExp(self.M, self.offset, self.weight[..., 0])
        exponent = self.exponent if self.kind == "power" else None
        return altdiff.Separable(self.kind, self.weight, self.M, self.offset, exponent=exponent)


@dataclass
class Smooth:
    """A program."""

    parts: list[Part]
    P: Array
    q: Array
    constraints: dict[str, Array]

    def objective(self) -> Any:
        """The library's."""
        first = altdiff.Quadratic(self.P, self.q) if self.P.any() else altdiff.Linear(self.q)
        return sum((part.term() for part in self.parts), first)


@dataclass(frozen=True)
class Plan:
    """What programs of a group have in common."""

    structure: str
    n: int
    m: int
    p: int
    kinds: tuple[tuple[str, int, bool, float], ...]  # kind, rows, whether there is a map, exponent
    boxed: bool


def make_plan(structure: str, group: int) -> Plan:
    """The plan of a group."""
    rng = np.random.default_rng([5, crc32(structure.encode()), group])
    n = int(rng.integers(1, 7))
    names = {"spread": (LSE,), "flat": ("softplus", "power", "pseudo-huber", "exp")}.get(
        structure, (*SEPARABLE, LSE)
    )
    kinds = []
    for _ in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(names))
        mapped = kind == LSE or (structure != "sums" and bool(rng.uniform() < 0.8))
        kinds.append(
            (kind, int(rng.integers(1, 2 * n + 1)) if mapped else n, mapped, float(rng.choice([2, 3, 4.5])))
        )
    p = int(rng.integers(0, n)) if structure != "tight" else n - 1
    return Plan(structure, n, int(rng.integers(0, n + 2)), p, tuple(kinds), bool(rng.uniform() < 0.5))


def make_smooth(structure: str, seed: int) -> Smooth:
    """The program of a seed."""
    plan = make_plan(structure, seed // GROUP)
    rng = np.random.default_rng([6, crc32(structure.encode()), seed])
    n = plan.n
    x = rng.uniform(0.1, 0.9, size=n)  # inside the domain of every term without a map
    parts = [_part(rng, plan.structure, x, *kind) for kind in plan.kinds]
    ridge = 0.0 if plan.boxed else 10.0 ** rng.uniform(-3, 0)
    P, q = ridge * np.eye(n), rng.normal(size=n) * 10.0 ** rng.uniform(-2, 1)
    if structure in ("flat", "zero-weights") and rng.uniform() < 0.5:
        q[:] = 0.0
    return Smooth(parts, P, q, _constraints(rng, plan, x))


def _part(rng: Rng, structure: str, x: Array, kind: str, rows: int, mapped: bool, exponent: float) -> Part:
    """A term that is defined at x, and around it."""
    M = rng.normal(size=(rows, x.size)) if mapped else None
    weight = rng.uniform(0.5, 2.0, size=rows)
    if M is not None and structure in ("zero-rows", "edge"):
        M[rng.uniform(size=rows) < 0.4] = 0.0
    if structure == "zero-weights":
        weight *= rng.uniform(size=rows) < rng.choice([0.0, 0.5])
    if structure == "scaled":
        weight *= 10.0 ** rng.uniform(-6, 6)
    if M is None:
        return Part(kind, weight, None, np.zeros(rows), exponent)
    if structure == "spread":
        offset = 10.0 ** rng.uniform(0, 4) * rng.normal(size=rows)
    elif structure == "flat":
        offset = M @ x + rng.uniform(10.0, 60.0, size=rows)  # softplus and exp: as good as constant
    elif kind in DOMAINS:
        t = rng.uniform(0.05, 0.95, size=rows)
        if structure == "edge":
            ends = {"entropy": [0.0, 1e-300], "-log": [1e-300, 1e-20], "binary entropy": [0.0, 1.0]}[kind]
            t = np.where(M.any(axis=1), t, rng.choice(ends, size=rows))
        offset = M @ x - t
    else:
        offset = M @ x + rng.normal(size=rows)
    return Part(kind, weight, M, offset, exponent)


def _constraints(rng: Rng, plan: Plan, x: Array) -> dict[str, Array]:
    given: dict[str, Array] = {}
    tight = 0.01 if plan.structure == "tight" else 1.0
    if plan.p:
        A = rng.normal(size=(plan.p, plan.n))
        given |= {"A": A, "b": A @ x}
    if plan.m:
        G = rng.normal(size=(plan.m, plan.n))
        given |= {"G": G, "h": G @ x + tight * rng.uniform(0.01, 0.5, size=plan.m)}
    if plan.boxed:
        given |= {"lb": x - tight * rng.uniform(0.01, 1.5, size=plan.n)}
        given |= {"ub": x + tight * rng.uniform(0.01, 1.5, size=plan.n)}
    return given


def stacked(programs: list[Smooth]) -> Smooth:
    """Programs of one plan in one."""
    parts = []
    for k, first in enumerate(programs[0].parts):
        same = [program.parts[k] for program in programs]
        M = None if first.M is None else np.stack([np.asarray(part.M) for part in same])
        weight, offset = np.stack([part.weight for part in same]), np.stack([part.offset for part in same])
        parts.append(Part(first.kind, weight, M, offset, first.exponent))
    names = programs[0].constraints
    constraints = {name: np.stack([program.constraints[name] for program in programs]) for name in names}
    P, q = np.stack([program.P for program in programs]), np.stack([program.q for program in programs])
    return Smooth(parts, P, q, constraints)
