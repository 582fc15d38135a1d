"""The shapes of a batch of convex programs: the objective's numbers beside the constraints.

As in `_layout` only shapes are looked at, and what one call found out serves later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._fields import CONSTRAINTS, DIMENSIONS
from altdiff._layout import column_hint, make_layout, places_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from altdiff._layout import Layout, Shape
    from altdiff._objectives import Structure, Term

_REMEMBERED = 256  # layouts; a training loop has a few


@dataclass(frozen=True)
class Number:
    """The shape of one of the objective's numbers."""

    label: str  # for errors
    shape: Shape  # as given
    rank: int  # dimensions of one instance's

    @property
    def lead(self) -> Shape:
        """The batch dimensions."""
        return self.shape[: max(0, len(self.shape) - self.rank)]


@dataclass(frozen=True)
class ConvexLayout:
    """The constraints' layout, with stand-ins for P and q, and that of the objective's numbers."""

    program: Layout
    numbers: tuple[Number, ...]
    used: tuple[Shape, ...]  # of each number, where one may stand for all rows

    def __getstate__(self) -> dict[str, Any]:
        """As that of Layout."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def plain(self) -> bool:
        """Whether every array is used as it was given."""
        return self.program.plain and self.used == tuple(number.shape for number in self.numbers)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many arrays each number has."""
        return tuple(int(np.prod(number.lead, dtype=np.int64)) for number in self.numbers)

    @cached_property
    def places(self) -> tuple[NDArray[np.int64] | None, ...]:
        """Which of a number's arrays each instance uses; None: the only one, or each its own."""
        return tuple(places_in(self.program.batch, number.lead) for number in self.numbers)

    @cached_property
    def place_addresses(self) -> tuple[int, ...]:
        """Where `places` lie in memory; zero for None."""
        return tuple(0 if array is None else array.ctypes.data for array in self.places)


@lru_cache(maxsize=_REMEMBERED)
def layout_of_terms(
    objective: tuple[Structure, ...], shapes: tuple[Shape, ...], constraints: tuple[Shape | None, ...]
) -> ConvexLayout:
    """Checks the shapes of built-in terms and of G, h, A, b, lb, ub; an error names the field."""
    terms = _parted(objective, shapes)
    n = _variables_of_terms(terms, constraints)
    numbers: list[Number] = []
    used: list[Shape] = []
    for i, (kind, fields) in enumerate(terms):
        place = f"term {i + 1}: " if len(terms) > 1 else ""
        M = fields.get("M")
        sizes = {"n": n, "k": n if M is None or len(M) < 2 else M[-2]}
        for name, shape in fields.items():
            label = f"{place}{kind.__name__}.{name}"
            dimensions = kind.DIMENSIONS[name]
            own = tuple(sizes[d] for d in dimensions)
            if shape == () and name in kind.SCALARS:
                used.append(own)
            elif len(shape) >= len(own) and shape[len(shape) - len(own) :] == own:
                used.append(shape)
            else:
                sides = ", ".join(f"{d} = {sizes[d]}" for d in dict.fromkeys(dimensions))
                hint = column_hint(name, shape, own)
                raise ValueError(
                    f"{label} must have shape (..., {', '.join(dimensions)}) with {sides}, got {shape}{hint}"
                )
            numbers.append(Number(label, shape, len(dimensions)))
    return ConvexLayout(_program(n, numbers, constraints), tuple(numbers), tuple(used))


def _parted(
    objective: tuple[Structure, ...], shapes: tuple[Shape, ...]
) -> list[tuple[type[Term], dict[str, Shape]]]:
    """Each term's class, and the shapes of the fields that it has."""
    own = iter(shapes)
    return [(term.term, {name: tuple(next(own)) for name in term.present}) for term in objective]


@lru_cache(maxsize=_REMEMBERED)
def layout_of_function(
    numbers: tuple[Number, ...], n: int | None, constraints: tuple[Shape | None, ...]
) -> ConvexLayout:
    """The same for a function of somebody's own, whose theta may have any shape."""
    found = _variables_of_constraints(constraints) if n is None else n
    if found is None:
        raise ValueError("how many variables there are is not known: pass n=..., or lb=..., or a constraint")
    for number in numbers:
        if len(number.shape) < number.rank:
            raise ValueError(
                f"{number.label} must have {number.rank} dimensions or more, as ranks says, "
                f"got shape {number.shape}"
            )
    shapes = tuple(number.shape for number in numbers)
    return ConvexLayout(_program(found, numbers, constraints), numbers, shapes)


def _program(n: int, numbers: Sequence[Number], constraints: tuple[Shape | None, ...]) -> Layout:
    """The layout of the constraints, in which q has the batch dimensions of all numbers."""
    leads = [number.lead for number in numbers]
    try:
        lead = np.broadcast_shapes(*leads)
        return make_layout(((n, n), (*lead, n), *constraints), (True,) * len(DIMENSIONS))
    except ValueError as error:
        named = [(number.label, number.shape) for number in numbers]
        named += [(name, s) for name, s in zip(CONSTRAINTS, constraints, strict=True) if s is not None]
        if "broadcast" not in str(error):
            raise
        shapes = ", ".join(f"{name} {shape}" for name, shape in named)
        raise ValueError(f"the batch dimensions do not broadcast together: {shapes}") from None


def _variables_of_terms(
    terms: list[tuple[type[Term], dict[str, Shape]]], constraints: tuple[Shape | None, ...]
) -> int:
    """n, from the first array that tells it; a q that may be a column comes last."""
    rowwise: int | None = None
    doubtful: int | None = None
    for kind, fields in terms:
        for name in ("P", "q", "M"):
            shape = fields.get(name)
            if shape is None or len(shape) < len(kind.DIMENSIONS[name]):
                continue
            if name != "q" or len(shape) == 1 or shape[-1] != 1:
                return shape[-1]
            doubtful = 1
        if "M" not in fields:
            found = [s[-1] for name, s in fields.items() if s and name in kind.SCALARS]
            rowwise = found[0] if found and rowwise is None else rowwise
    for n in (rowwise, _variables_of_constraints(constraints), doubtful):
        if n is not None:
            return n
    raise ValueError("how many variables there are is not known: give a weight or a bound as a vector")


def _variables_of_constraints(constraints: tuple[Shape | None, ...]) -> int | None:
    for name, shape in zip(CONSTRAINTS, constraints, strict=True):
        if name in ("G", "A", "lb", "ub") and shape is not None and len(shape) >= len(DIMENSIONS[name]):
            return shape[-1]
    return None
