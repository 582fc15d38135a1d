"""Sparse batches: one problem of the core for each instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from altdiff._accumulate import Accumulator
from altdiff._directions import block, direction
from altdiff._envelope import objective_gradient
from altdiff._fields import FIELDS, POINT
from altdiff._native import core
from altdiff._status import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._binding import NativeSettings, NativeSolution, Point
    from altdiff._problem import Index, Problem

# Numbers that describe each instance's solve, and their types.
_REPORT: dict[str, type] = {
    "objective": np.float64,
    "status": np.int64,
    "iterations": np.int64,
    "primal_residual": np.float64,
    "dual_residual": np.float64,
    "duality_gap": np.float64,
    "degenerate": np.bool_,
    "unique": np.bool_,
    "margin": np.float64,
}


@dataclass(frozen=True)
class SparseBatch:
    """A solved batch of sparse programs."""

    kind: ClassVar[str] = "quadratic"
    problem: Problem
    settings: NativeSettings
    natives: dict[Index, NativeSolution | None]  # None: the data of this instance are invalid

    @property
    def all_solved(self) -> bool:
        """Whether no instance failed."""
        return all(
            native is not None and int(native.status) == Status.SOLVED for native in self.natives.values()
        )

    def recipe(self) -> tuple[Callable[..., SparseBatch], tuple[Problem]]:
        """What solves it again."""
        return solve, (self.problem,)

    def part(self, name: str) -> Array:
        """A new array with x, y, z or z_box."""
        return self._gathered(name, np.float64, (self._sizes()[name],))

    def report(self) -> dict[str, NDArray[Any]]:
        """New arrays with what became of each instance."""
        return {name: self._gathered(name, kind, ()) for name, kind in _REPORT.items()}

    def _sizes(self) -> dict[str, int]:
        return {name: self.problem.layout.sizes[size] for name, size in POINT.items()}

    def _gathered(self, name: str, kind: type, shape: tuple[int, ...]) -> NDArray[Any]:
        alone = self.natives.get(()) if self.problem.batch == () else None
        if alone is not None:
            value = getattr(alone, name)
            return np.array(int(value) if name == "status" else value, dtype=kind)
        unsolved: dict[str, Any] = {"status": Status.INVALID_DATA, "iterations": 0}
        filler = unsolved.get(name, np.nan if kind is np.float64 else False)
        values: NDArray[Any] = np.full((*self.problem.batch, *shape), filler, dtype=kind)
        for index, native in self.natives.items():
            if native is not None:
                value = getattr(native, name)
                values[index] = int(value) if name == "status" else value
        return values

    def _differentiable(self, only_solved: bool) -> dict[Index, NativeSolution]:
        return {
            index: native
            for index, native in self.natives.items()
            if native is not None and native.differentiable(only_solved)
        }

    def vjp(
        self, bars: Mapping[str, Array | None], wanted: tuple[str, ...], missing: float, only_solved: bool
    ) -> dict[str, Block]:
        """Gradients of the wanted fields."""
        given = self.problem.layout.given
        sums = {name: Accumulator(self.problem, name) for name in wanted if given[name] is not None}
        known = self._differentiable(only_solved)
        usable: dict[Index, dict[str, Array]] = {}
        for index in self.natives:
            own = {name: bar[index] for name, bar in bars.items() if bar is not None and np.any(bar[index])}
            if not own:
                continue
            if index not in known:
                _fill(sums, index, missing)
            elif not all(np.isfinite(bar).all() for bar in own.values()):
                _fill(sums, index, np.nan)
            else:
                usable[index] = own
        self._add_point(sums, known, usable)
        self._add_objective(sums, known, usable)
        return {name: sums[name].result() if name in sums else None for name in wanted}

    def _add_point(
        self,
        sums: Mapping[str, Accumulator],
        known: Mapping[Index, NativeSolution],
        bars: Mapping[Index, Mapping[str, Array]],
    ) -> None:
        """Adds what flows through x, y, z and z_box: one solve with the instance's own factor each."""
        indices = [index for index, own in bars.items() if any(part in POINT for part in own)]
        cotangents = [tuple(bars[index].get(part) for part in POINT) for index in indices]
        gradients = core.vjp_each([known[index] for index in indices], cotangents, self.settings)
        for index, gradient in zip(indices, gradients, strict=True):
            for name, value in zip(FIELDS, gradient, strict=True):
                if name in sums:
                    sums[name].add(index, value)

    def _add_objective(
        self,
        sums: Mapping[str, Accumulator],
        known: Mapping[Index, NativeSolution],
        bars: Mapping[Index, Mapping[str, Array]],
    ) -> None:
        """Adds what flows through the objective, by the envelope theorem."""
        for index, own in bars.items():
            if "objective" not in own:
                continue
            point = {name: getattr(known[index], name) for name in POINT}
            for name, total in sums.items():
                total.add_dense(index, own["objective"] * objective_gradient(name, point))

    def jvp(
        self, tangents: Mapping[str, MatrixLike | None], missing: float, only_solved: bool
    ) -> dict[str, Array]:
        """Tangents of x, y, z and z_box."""
        problem = self.problem
        directions = {name: direction(problem, name, tangents.get(name)) for name in FIELDS}
        out = {name: np.full((*problem.batch, size), missing) for name, size in self._sizes().items()}
        for index, native in self._differentiable(only_solved).items():
            P, q, G, h, A, b, lb, ub = (block(problem, name, directions[name], index) for name in FIELDS)
            for name, values in zip(POINT, native.jvp(P, q, G, h, A, b, lb, ub), strict=True):
                out[name][index] = values
        return out

    def flat_part(self, v: Array, only_solved: bool) -> Array:
        """(L2) of vectors like x; zero where x is unique, or has no derivative."""
        out = np.zeros_like(v)
        for index, native in self._differentiable(only_solved).items():
            if not native.unique:
                out[index] = native.flat_part(v[index])
        return out

    def jacobian(self, field: str, missing: float, only_solved: bool) -> Array:
        """The derivative of x with respect to a vector field."""
        layout = self.problem.layout
        out = np.full((*layout.batch, layout.sizes["n"], *layout.shape(field)), missing)
        for index, native in self._differentiable(only_solved).items():
            out[index] = native.jacobian(field)
        return out


def solve(
    problem: Problem, settings: NativeSettings, initial: Mapping[str, Array] | None = None
) -> SparseBatch:
    """Solves every instance."""
    invalid = problem.invalid()
    natives: dict[Index, NativeSolution | None] = dict.fromkeys(problem.indices())
    valid = [index for index in natives if not invalid[index]]
    programs = [core.SparseProblem(*problem.instance(index)) for index in valid]
    starts = [_start(initial, index) for index in valid]
    natives.update(zip(valid, core.solve_each(programs, settings, starts), strict=True))
    return SparseBatch(problem, settings, natives)


def _fill(sums: Mapping[str, Accumulator], index: Index, value: float) -> None:
    for total in sums.values():
        total.fill(index, value)


def _start(initial: Mapping[str, Array] | None, index: Index) -> Point | None:
    if initial is None:
        return None
    x, y, z, z_box = (initial[name][index] for name in POINT)
    known = all(np.isfinite(part).all() for part in (x, y, z, z_box))
    return (x, y, z, z_box) if known else None
