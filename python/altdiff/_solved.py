"""What dense and sparse batches have in common, once solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._problem import Problem


class Batch(Protocol):
    """A solved batch. `missing` stands for the derivative of an instance without one; `only_solved` says that
    an instance that stopped early has none.
    """

    @property
    def kind(self) -> str:
        """The kind of problem, which the advice after a failure depends on."""

    @property
    def problem(self) -> Problem:
        """What was solved."""

    @property
    def all_solved(self) -> bool:
        """Whether no instance failed."""

    def recipe(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        """A function that pickle knows by name, and what it takes before settings and start to solve it."""

    def part(self, name: str) -> Array:
        """A new array with x, y, z or z_box."""

    def report(self) -> dict[str, NDArray[Any]]:
        """New arrays with what became of each instance: objective, status, iterations, ..."""

    def vjp(
        self, bars: Mapping[str, Array | None], wanted: tuple[str, ...], missing: float, only_solved: bool
    ) -> dict[str, Block]:
        """Gradients of the wanted fields."""

    def jvp(
        self, tangents: Mapping[str, MatrixLike | None], missing: float, only_solved: bool
    ) -> dict[str, Array]:
        """Tangents of x, y, z and z_box."""

    def flat_part(self, v: Array, only_solved: bool) -> Array:
        """(L2) of vectors like x; zero where x is unique, or has no derivative."""

    def jacobian(self, field: str, missing: float, only_solved: bool) -> Array:
        """The derivative of x with respect to a vector field."""
