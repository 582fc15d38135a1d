"""Dense batches: arrays in, one call of the core, arrays out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._arrays import is_sparse
from altdiff._directions import direction
from altdiff._fields import FIELDS, POINT
from altdiff._native import core
from altdiff._status import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._binding import NativeBatch, NativeSettings
    from altdiff._problem import Problem

COTANGENTS = (*POINT, "objective")


@dataclass(frozen=True)
class DenseBatch:
    """A solved batch of dense programs."""

    problem: Problem
    native: NativeBatch
    num_threads: int

    @property
    def all_solved(self) -> bool:
        """Whether no instance failed."""
        return self.native.all_solved

    def point(self) -> dict[str, Array]:
        """New arrays with x, y, z and z_box."""
        return self._shaped(self.native.point)

    def report(self) -> dict[str, NDArray[Any]]:
        """New arrays with what became of each instance."""
        return {name: value.reshape(self.problem.batch) for name, value in self.native.report.items()}

    def vjp(
        self, bars: Mapping[str, Array | None], wanted: tuple[str, ...], missing: float, only_solved: bool
    ) -> dict[str, Block]:
        """Gradients of the wanted fields, in the shapes that the user gave."""
        cotangents = tuple(_contiguous(bars.get(name)) for name in COTANGENTS)
        flags = tuple(name in wanted for name in FIELDS)
        gradients = self.native.vjp(cotangents, flags, missing, only_solved, self.num_threads)
        return {
            name: self._gradient(name, value)
            for name, value in zip(FIELDS, gradients, strict=True)
            if name in wanted
        }

    def _gradient(self, name: str, value: Array | None) -> Block:
        given = self.problem.layout.given[name]
        if given is None:
            return None
        if value is None:  # a block that holds no entry
            return np.zeros(given)
        return np.asarray(value.sum()) if given == () else value.reshape(given)

    def jvp(
        self, tangents: Mapping[str, MatrixLike | None], missing: float, only_solved: bool
    ) -> dict[str, Array]:
        """Tangents of x, y, z and z_box."""
        directions = tuple(self._direction(name, tangents.get(name)) for name in FIELDS)
        return self._shaped(
            self.native.jvp(directions, (None,) * len(FIELDS), missing, only_solved, self.num_threads)
        )

    def _direction(self, name: str, value: MatrixLike | None) -> Array | None:
        array = direction(self.problem, name, value)
        if array is None:
            return None
        return np.ascontiguousarray(array.toarray() if is_sparse(array) else array)

    def jacobian(self, field: str, missing: float, only_solved: bool) -> Array:
        """The derivative of x with respect to a vector field."""
        jacobians = self.native.jacobian(field, missing, only_solved, self.num_threads)
        return jacobians.reshape((*self.problem.batch, *jacobians.shape[1:]))

    def _shaped(self, arrays: tuple[Array, Array, Array, Array]) -> dict[str, Array]:
        batch = self.problem.batch
        return {
            name: array.reshape((*batch, array.shape[1])) for name, array in zip(POINT, arrays, strict=True)
        }


def solve(
    problem: Problem, settings: NativeSettings, initial: Mapping[str, Array] | None = None
) -> DenseBatch:
    """Solves every instance."""
    layout = problem.layout
    start = None if initial is None else tuple(_contiguous(initial[name]) for name in POINT)
    native = core.solve_dense(
        layout.instances,
        *(layout.sizes[size] for size in ("n", "m", "p")),
        tuple(problem.values.values()),
        tuple(layout.places.values()),
        settings,
        start,
    )
    if not native.all_solved and Status.INVALID_DATA in native.report["status"]:
        problem.invalid()  # raises if an unbatched array is to blame
    return DenseBatch(problem, native, settings.num_threads)


def _contiguous(array: Array | None) -> Array | None:
    return None if array is None else np.ascontiguousarray(array)
