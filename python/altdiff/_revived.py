"""Solved batches that come by pickle: the core's factors stay behind, and are made again when needed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from altdiff._layer import Solved
from altdiff._settings import native_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from altdiff._arrays import Array
    from altdiff._solved import Batch

# Lines need not be printed twice; and a limit would not end at the same point twice.
_LEFT_OUT = ("verbose", "time_limit")


class Again(NamedTuple):
    """What a batch was solved with, beside its arrays: the same answers come of it again, bit for bit."""

    settings: Mapping[str, Any]  # as the user gave them
    initial: Mapping[str, Array] | None


class Revived(Solved):
    """A batch from another process, solved when a derivative is first asked for."""

    def __init__(self, solve: Callable[..., Batch], inputs: tuple[Any, ...], again: Again) -> None:
        self.solve, self.inputs, self.call = solve, inputs, again

    @cached_property
    def batch(self) -> Batch:  # type: ignore[override]
        """The batch, with derivatives."""
        settings = {name: v for name, v in self.call.settings.items() if name not in _LEFT_OUT}
        return self.solve(*self.inputs, native_settings(settings), self.call.initial)


def reduced(solved: Solved) -> tuple[type[Revived], tuple[Any, ...]]:
    """What pickle makes of a solved batch: the arrays, and how they were solved."""
    if isinstance(solved, Revived):
        return Revived, (solved.solve, solved.inputs, solved.call)
    if not isinstance(solved.call, Again):
        raise TypeError("a solved batch of tensors cannot be pickled: pickle the tensors")
    return Revived, (*solved.batch.recipe(), solved.call)
