"""Dense batches: arrays in, one call of the core, arrays out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from altdiff._arrays import is_sparse
from altdiff._directions import direction
from altdiff._fields import FIELDS, POINT
from altdiff._native import core
from altdiff._status import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._binding import NativeBatch, NativeSettings
    from altdiff._layout import Layout
    from altdiff._problem import Problem

COTANGENTS = (*POINT, "objective")
_PARTS = {name: index for index, name in enumerate(POINT)}


@dataclass(eq=False)
class CoreBatch:
    """A batch that the core solved. It reads the problem's arrays where they are: this keeps them."""

    kind: ClassVar[str] = "quadratic"  # of problem, for what a failure advises

    problem: Problem
    native: Any

    @property
    def all_solved(self) -> bool:
        """Whether no instance failed."""
        solved: bool = self.native.all_solved
        return solved

    def blame(self) -> None:
        """Raises if what an unbatched array holds is why an instance failed."""
        if not self.all_solved and Status.INVALID_DATA in self.native.report["status"]:
            self.problem.invalid()

    def part(self, name: str) -> Array:
        """A new array with x, y, z or z_box."""
        batch = self.problem.layout.batch
        array: Array = self.native.part(_PARTS[name], batch != ())
        return array if len(batch) <= 1 else array.reshape((*batch, array.shape[-1]))

    def report(self) -> dict[str, NDArray[Any]]:
        """New arrays with what became of each instance."""
        return {name: value.reshape(self.problem.batch) for name, value in self.native.report.items()}

    def flat_part(self, v: Array, only_solved: bool) -> Array:
        """(L2) of vectors like x; zero where x is unique, or has no derivative."""
        source = np.ascontiguousarray(v)
        target = np.empty_like(source)
        self.native.flat_part(source.ctypes.data, target.ctypes.data, only_solved)
        return target

    def shaped(self, name: str, value: Array | None) -> Block:
        """A gradient in the shape that the user gave the field."""
        given = self.problem.layout.given[name]
        if given is None:
            return None
        if value is None:  # a block that holds no entry
            return np.zeros(given)
        return np.asarray(value.sum()) if given == () else value


@dataclass(eq=False)
class DenseBatch(CoreBatch):
    """A solved batch of dense quadratic programs."""

    native: NativeBatch

    def recipe(self) -> tuple[Callable[..., DenseBatch], tuple[Problem]]:
        """What solves it again."""
        return solve, (self.problem,)

    def pull_back(
        self, bars: tuple[int, ...], wanted: list[int], missing: float, only_solved: bool
    ) -> list[Array]:
        """New arrays with the gradients of the wanted fields (by their place in FIELDS).

        The cotangents lie at the addresses `bars`, in the order of COTANGENTS.
        """
        layout = self.problem.layout
        arrays = self.native.vjp(bars, wanted, layout.batched, missing, only_solved)
        if len(layout.batch) > 1:
            return [a.reshape(layout.used[FIELDS[f]]) for a, f in zip(arrays, wanted, strict=True)]
        return arrays

    def vjp(
        self, bars: Mapping[str, Array | None], wanted: tuple[str, ...], missing: float, only_solved: bool
    ) -> dict[str, Block]:
        """Gradients of the wanted fields, in the shapes that the user gave."""
        layout = self.problem.layout
        cotangents = [_contiguous(bars.get(name)) for name in COTANGENTS]
        addresses = tuple(0 if bar is None else bar.ctypes.data for bar in cotangents)
        places = [f for f, name in enumerate(FIELDS) if name in wanted and layout.used[name] is not None]
        arrays = self.pull_back(addresses, places, missing, only_solved)
        gradients = {FIELDS[f]: array for f, array in zip(places, arrays, strict=True)}
        return {name: self.shaped(name, gradients.get(name)) for name in wanted}

    def jvp(
        self, tangents: Mapping[str, MatrixLike | None], missing: float, only_solved: bool
    ) -> dict[str, Array]:
        """Tangents of x, y, z and z_box."""
        layout = self.problem.layout
        directions = {name: self._direction(name, tangents.get(name)) for name in FIELDS}
        out = {name: np.empty((*layout.batch, layout.sizes[size])) for name, size in POINT.items()}
        self.native.jvp(
            tuple(0 if value is None else value.ctypes.data for value in directions.values()),
            tuple(
                1 if value is None else value.size // max(1, _entries(layout, name))
                for name, value in directions.items()
            ),
            tuple(array.ctypes.data for array in out.values()),
            missing,
            only_solved,
        )
        return out

    def _direction(self, name: str, value: MatrixLike | None) -> Array | None:
        array = direction(self.problem, name, value)
        if array is None:
            return None
        return np.ascontiguousarray(array.toarray() if is_sparse(array) else array)

    def jacobian(self, field: str, missing: float, only_solved: bool) -> Array:
        """The derivative of x with respect to a vector field."""
        layout = self.problem.layout
        out = np.empty((*layout.batch, layout.sizes["n"], *layout.shape(field)))
        self.native.jacobian(field, out.ctypes.data, missing, only_solved)
        return out


def solve(
    problem: Problem, settings: NativeSettings, initial: Mapping[str, Array] | None = None
) -> DenseBatch:
    """Solves every instance."""
    layout = problem.layout
    start = None if initial is None else [np.ascontiguousarray(initial[name]) for name in POINT]
    native = core.solve_dense(
        *layout.core_sizes,
        problem.addresses(),
        layout.counts,
        layout.place_addresses,
        settings,
        None if start is None else tuple(array.ctypes.data for array in start),
    )
    batch = DenseBatch(problem, native)
    batch.blame()
    return batch


def _entries(layout: Layout, name: str) -> int:
    return int(np.prod(layout.shape(name)))


def _contiguous(array: Array | None) -> Array | None:
    return None if array is None else np.ascontiguousarray(array)
