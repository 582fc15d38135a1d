"""Batches with smooth objectives, straight on the core's binding: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from altdiff._fields import FIELDS
from altdiff._native import core

from helpers.problems import Array

if TYPE_CHECKING:
    from altdiff._binding import Evaluate, NativeSmoothBatch, NativeTerm

TERM_FIELDS = ("P", "q", "weight", "map", "offset")
PARTS = ("x", "y", "z", "z_box")


@dataclass
class Term:
    """A term by its kind; every array has a leading dimension: 1 where it is shared."""

    kind: str
    fields: dict[str, Array] = field(default_factory=dict)
    power: float = 2.0

    def native(self, n: int) -> NativeTerm:
        """As the core takes it."""
        rows = 0 if self.kind == "quadratic" else self.fields["map"].shape[1] if "map" in self.fields else n
        arrays = [self.fields.get(name) for name in TERM_FIELDS]
        addresses = tuple(0 if a is None else a.ctypes.data for a in arrays)
        return (
            self.kind,
            rows,
            self.power,
            addresses,
            tuple(1 if a is None else len(a) for a in arrays),
            (0,) * 5,
        )


@dataclass
class SmoothProblem:
    """A batch: terms and constraints."""

    size: int
    n: int
    terms: list[Term]
    constraints: dict[str, Array] = field(default_factory=dict)

    def solve(
        self,
        evaluate: Evaluate | None = None,
        elementwise: bool = False,
        initial: tuple[Array, ...] | None = None,
        **settings: float,
    ) -> Solved:
        """By the core."""
        arrays = [self.constraints.get(name) for name in FIELDS]
        m, p = (0 if (a := self.constraints.get(name)) is None else a.shape[-1] for name in ("h", "b"))
        native = core.solve_smooth(
            self.size,
            self.n,
            m,
            p,
            tuple(0 if a is None else a.ctypes.data for a in arrays),
            tuple(1 if a is None else len(a) for a in arrays),
            (0,) * 8,
            [term.native(self.n) for term in self.terms],
            evaluate,
            elementwise,
            core.Settings(**settings),
            None if initial is None else tuple(a.ctypes.data for a in initial),
        )
        return Solved(self, native)

    def places(self) -> list[tuple[int, str]]:
        """Every array that has a gradient: of the constraints (-1) and of the terms."""
        own = [(-1, name) for name in self.constraints]
        return own + [(t, name) for t, term in enumerate(self.terms) for name in term.fields]

    def array(self, place: tuple[int, str]) -> Array:
        """The array at one of the places."""
        t, name = place
        return self.constraints[name] if t < 0 else self.terms[t].fields[name]


@dataclass
class Solved:
    """What the core found."""

    problem: SmoothProblem
    native: NativeSmoothBatch

    def __getattr__(self, name: str) -> Array:
        if name in PARTS:
            return self.native.part(PARTS.index(name), True)
        array: Array = self.native.report[name]
        return array

    def outputs(self) -> list[Array]:
        """All that a loss may depend on."""
        return [self.x, self.y, self.z, self.z_box, self.objective]

    def vjp(self, bars: list[Array | None], missing: float = np.nan) -> dict[tuple[int, str], Array]:
        """Gradients of all places, and u at (-1, "u")."""
        problem = self.problem
        constraints = [name for t, name in problem.places() if t < 0]
        terms = [(t, TERM_FIELDS.index(name)) for t, name in problem.places() if t >= 0]
        own, of_terms, u = self.native.vjp(
            tuple(0 if bar is None else bar.ctypes.data for bar in bars),
            [FIELDS.index(name) for name in constraints],
            (True,) * 8,
            terms,
            True,
            missing,
            False,
        )
        assert u is not None
        gradients = dict(zip(problem.places(), [*own, *of_terms], strict=True))
        shaped = {place: g.reshape(problem.array(place).shape) for place, g in gradients.items()}
        return {**shaped, (-1, "u"): u}

    def jvp(self, change: dict[tuple[int, str], Array]) -> dict[str, Array]:
        """Tangents of x, y, z and z_box along a change of some places."""
        sizes = {"x": self.problem.n, "y": self.y.shape[1], "z": self.z.shape[1], "z_box": self.problem.n}
        out = {name: np.empty((self.problem.size, size)) for name, size in sizes.items()}

        def described(t: int, names: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
            arrays = [change.get((t, name)) for name in names]
            return tuple(0 if a is None else a.ctypes.data for a in arrays), tuple(
                1 if a is None else len(a) for a in arrays
            )

        self.native.jvp(
            *described(-1, FIELDS),
            [described(t, TERM_FIELDS) for t in range(len(self.problem.terms))],
            0,
            tuple(array.ctypes.data for array in out.values()),
            np.nan,
            False,
        )
        return out
