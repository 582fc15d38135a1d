"""The shapes of a batch of quadratic programs: what they must be, and how the fields broadcast.

Only shapes are looked at here, so what one call found out serves every later call with the same shapes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._fields import BLOCKS, DIMENSIONS, FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Shape = tuple[int, ...]
Shapes = dict[str, Shape | None]

_REMEMBERED = 256  # layouts; a training loop has a few


@dataclass(frozen=True)
class Layout:
    """The shapes of the eight fields, checked against each other."""

    given: Shapes  # as the user gave them, which gradients take; None: absent
    used: Shapes  # without the fields that hold no entry; scalar bounds as vectors
    leads: dict[str, Shape]  # the batch dimensions of each used field; () for a shared one
    sizes: dict[str, int]  # n, m and p
    batch: Shape  # () for one unbatched instance

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles have: not what was found out since, which holds addresses."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def instances(self) -> int:
        """How many instances the batch has."""
        return int(np.prod(self.batch, dtype=np.int64))

    @cached_property
    def plain(self) -> bool:
        """Whether every field is used as it was given."""
        return self.given == self.used

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many arrays each field has."""
        return tuple(int(np.prod(self.leads.get(name, ()), dtype=np.int64)) for name in FIELDS)

    @cached_property
    def places(self) -> tuple[NDArray[np.int64] | None, ...]:
        """Which of a field's arrays each instance uses; None: the only one, or each its own."""
        return tuple(self._places(name) for name in FIELDS)

    @cached_property
    def place_addresses(self) -> tuple[int, ...]:
        """Where `places` lie in memory; zero for None."""
        return tuple(0 if array is None else array.ctypes.data for array in self.places)

    @cached_property
    def batched(self) -> tuple[bool, ...]:
        """Which fields have batch dimensions."""
        return tuple(self.leads.get(name, ()) != () for name in FIELDS)

    @cached_property
    def core_sizes(self) -> tuple[int, int, int, int]:
        """Instances, n, m and p, in the core's order."""
        return self.instances, self.sizes["n"], self.sizes["m"], self.sizes["p"]

    def shape(self, name: str) -> Shape:
        """The shape of one instance's field."""
        return tuple(self.sizes[dimension] for dimension in DIMENSIONS[name])

    def _places(self, name: str) -> NDArray[np.int64] | None:
        return places_in(self.batch, self.leads.get(name, ()))


def places_in(batch: Shape, lead: Shape) -> NDArray[np.int64] | None:
    """Which of the arrays with batch dimensions `lead` each instance uses; None as in `Layout.places`."""
    count = int(np.prod(lead, dtype=np.int64))
    padded = (1,) * (len(batch) - len(lead)) + lead
    if count == 1 or padded == batch:
        return None
    own = np.arange(count, dtype=np.int64).reshape(lead)
    return np.ascontiguousarray(np.broadcast_to(own, batch)).reshape(-1)


@lru_cache(maxsize=_REMEMBERED)
def make_layout(shapes: tuple[Shape | None, ...], dense: tuple[bool, ...]) -> Layout:
    """Checks the shapes of the eight fields, and says what is wrong by the field's name.

    `dense` is False for a sparse matrix, which has no batch dimensions.
    """
    given: Shapes = {
        name: None if shape is None else tuple(shape) for name, shape in zip(FIELDS, shapes, strict=True)
    }
    for name in ("P", "q"):
        if given[name] is None:
            hint = ": pass a matrix of zeros for a linear program" if name == "P" else ""
            raise ValueError(f"{name} is missing{hint}")
    all_leads = {
        name: leading(name, shape)
        for (name, shape), plain in zip(given.items(), dense, strict=True)
        if shape is not None and plain
    }
    used = {name: None if _is_empty(name, shape) else shape for name, shape in given.items()}
    _require_whole_blocks(used)
    sizes = _sizes(used)
    for name in ("lb", "ub"):
        if used[name] == ():
            used[name] = (sizes["n"],)
    _require_shapes(used, sizes)
    batch = _broadcast(list(all_leads.values()), given)
    leads = {name: lead for name, lead in all_leads.items() if used[name] is not None}
    return Layout(given, used, leads, sizes, batch)


def leading(name: str, shape: Shape) -> Shape:
    """The batch dimensions of a field's array."""
    return shape[: max(0, len(shape) - len(DIMENSIONS[name]))]


def _is_empty(name: str, shape: Shape | None) -> bool:
    """Whether a constraint holds no entry. A batch of zero instances has entries, in each of its none."""
    if shape is None or name in ("P", "q") or (shape == () and name in ("lb", "ub")):
        return False
    return 0 in shape[-len(DIMENSIONS[name]) :]


def _require_whole_blocks(shapes: Mapping[str, Shape | None]) -> None:
    for matrix, vector in BLOCKS:
        if (shapes[matrix] is None) != (shapes[vector] is None):
            missing, present = (matrix, vector) if shapes[matrix] is None else (vector, matrix)
            raise ValueError(
                f"{missing} is missing: {present} is given, and {matrix} and {vector} go together"
            )


def _sizes(shapes: Mapping[str, Shape | None]) -> dict[str, int]:
    q = shapes["q"]
    if not q:
        raise ValueError("q must have shape (..., n), got ()")
    if q[-1] == 0:
        raise ValueError("q is empty: a problem needs at least one variable")
    # When the fields disagree on n the majority is right, so that the error names the odd one out. A column,
    # beside a P that has its rows, says nothing by its width of one.
    P = shapes["P"] or ()
    named = {name: shape for name in ("q", "P", "G", "A", "lb", "ub") if (shape := shapes[name])}
    votes = Counter(
        shape[-1]
        for name, shape in named.items()
        if not (len(DIMENSIONS[name]) == 1 and P and is_column(shape, P[-1]))
    )
    sizes = {"n": votes.most_common(1)[0][0]}
    for (matrix, _), rows in zip(BLOCKS, ("m", "p"), strict=True):
        shape = shapes[matrix]
        # A matrix of too few dimensions is reported with the other shapes.
        sizes[rows] = 0 if shape is None or len(shape) < 2 else shape[-2]
    return sizes


def is_column(shape: Shape, size: int) -> bool:
    """Whether this is a vector of that size, or a batch of them, as columns."""
    return size != 1 and shape[-2:] == (size, 1)


def column_hint(name: str, shape: Shape, expected: Shape) -> str:
    """What to do about a vector that is a column, for the end of an error."""
    if len(expected) != 1 or not is_column(shape, expected[0]):
        return ""
    return f": it is a column, pass {name}.squeeze(-1)"


def _require_shapes(shapes: Mapping[str, Shape | None], sizes: Mapping[str, int]) -> None:
    for name, shape in shapes.items():
        if shape is None:
            continue
        dimensions = DIMENSIONS[name]
        expected = tuple(sizes[d] for d in dimensions)
        if len(shape) < len(dimensions) or shape[-len(dimensions) :] != expected:
            # G and A set m and p, so only their columns can be wrong.
            known = [d for d in dict.fromkeys(dimensions) if name not in ("G", "A") or d == "n"]
            sides = ", ".join(f"{d} = {sizes[d]}" for d in known)
            wanted = "..., " + ", ".join(dimensions)
            hint = column_hint(name, shape, expected)
            raise ValueError(f"{name} must have shape ({wanted}) with {sides}, got {shape}{hint}")


def _broadcast(leads: list[Shape], given: Shapes) -> Shape:
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        shapes = ", ".join(f"{name} {shape}" for name, shape in given.items() if shape is not None)
        raise ValueError(f"the batch dimensions do not broadcast together: {shapes}") from None
