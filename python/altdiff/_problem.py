"""A batch of quadratic programs as arrays: the one place where a user's arguments are checked.

The rules, which every front end shares:
- Lists, integers, float32, read-only and non-contiguous arrays are accepted, and never written to.
- A sparse matrix may be of any scipy format; duplicates are summed and indices sorted on a copy.
- Only the symmetric part of P counts.
- lb and ub may be scalars. A block whose matrix or right-hand side holds no entry is absent.
- h = +inf, lb = -inf and ub = +inf mean that the row does not exist.
- What is wrong in an array without batch dimensions is an error that names the field. What is wrong in one
  instance of a batch makes that instance invalid, and leaves the others alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._arrays import full_csc, is_sparse, real_array, sparse_matrix
from altdiff._fields import ABSENT_ROW, BLOCKS, DIMENSIONS, FIELDS, MATRICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._binding import Blocks

Index = tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """A batch of quadratic programs, checked."""

    values: dict[str, Block | None]  # float64, shapes agreed; absent fields are None
    given: dict[str, tuple[int, ...] | None]  # shapes as the user gave them, which gradients take
    sizes: dict[str, int]  # n, m and p
    batch: tuple[int, ...]  # () for one unbatched instance
    invalid: NDArray[np.bool_]  # instances with NaN, a forbidden infinity, or lb > ub
    sparse: bool  # P, G or A is a scipy.sparse matrix

    def indices(self) -> Iterator[Index]:
        """The index of each instance, in order."""
        return iter(np.ndindex(*self.batch))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one instance's field."""
        return tuple(self.sizes[dimension] for dimension in DIMENSIONS[name])

    def own_index(self, name: str, index: Index) -> Index:
        """Where the instance at `index` lies in a field that may be shared, or broadcast."""
        value = self.values[name]
        lead = () if value is None or is_sparse(value) else leading(name, value)
        tail = index[len(index) - len(lead) :]
        return tuple(0 if size == 1 else i for i, size in zip(tail, lead, strict=True))

    def instance(self, index: Index) -> Blocks:
        """The eight fields of one instance as the core takes them."""
        P, q, G, h, A, b, lb, ub = (self._block(name, index) for name in FIELDS)
        return P, q, G, h, A, b, lb, ub

    def _block(self, name: str, index: Index) -> Block | None:
        value = self.values[name]
        if value is None or is_sparse(value):
            return value
        own = value[self.own_index(name, index)]
        return full_csc(own) if self.sparse and name in MATRICES else own


def make_problem(arguments: Mapping[str, MatrixLike | None]) -> Problem:
    """Checks the eight arguments, and says what is wrong by the field's name."""
    values = {name: _value(name, arguments.get(name)) for name in FIELDS}
    given = {name: None if v is None else tuple(v.shape) for name, v in values.items()}
    for name in ("P", "q"):
        if values[name] is None:
            hint = ": pass a matrix of zeros for a linear program" if name == "P" else ""
            raise ValueError(f"{name} is missing{hint}")
    leads = [leading(name, v) for name, v in values.items() if v is not None and not is_sparse(v)]
    _drop_empty(values)
    _require_whole_blocks(values)
    sizes = _sizes(values)
    for name in ("lb", "ub"):
        bound = values[name]
        if bound is not None and bound.ndim == 0:
            values[name] = np.full(sizes["n"], float(bound))
    _require_shapes(values, sizes)
    batch = _broadcast(leads, given)
    sparse = any(is_sparse(value) for value in values.values())
    return Problem(values, given, sizes, batch, _invalid_instances(values, batch), sparse)


def leading(name: str, array: Array) -> tuple[int, ...]:
    """The batch dimensions of a field's array."""
    count = max(0, array.ndim - len(DIMENSIONS[name]))
    return tuple(array.shape[:count])


def _value(name: str, value: MatrixLike | None) -> Block | None:
    if value is None:
        return None
    if not is_sparse(value):
        return real_array(name, value)
    if name not in MATRICES:
        raise TypeError(f"{name} must be a dense array: only P, G and A may be sparse")
    return sparse_matrix(name, value)


def _drop_empty(values: dict[str, Block | None]) -> None:
    """Makes a field without entries absent. A batch of zero instances has entries, in each of its none."""
    for name in ("G", "h", "A", "b", "lb", "ub"):
        value = values[name]
        dimensions = len(DIMENSIONS[name])
        if value is None or (value.ndim == 0 and name in ("lb", "ub")):
            continue
        if 0 in value.shape[-dimensions:]:
            values[name] = None


def _require_whole_blocks(values: Mapping[str, Block | None]) -> None:
    for matrix, vector in BLOCKS:
        if (values[matrix] is None) != (values[vector] is None):
            missing, present = (matrix, vector) if values[matrix] is None else (vector, matrix)
            raise ValueError(
                f"{missing} is missing: {present} is given, and {matrix} and {vector} go together"
            )


def _sizes(values: Mapping[str, Block | None]) -> dict[str, int]:
    q = values["q"]
    if q is None or q.ndim == 0:
        raise ValueError("q must have shape (..., n), got ()")
    if q.shape[-1] == 0:
        raise ValueError("q is empty: a problem needs at least one variable")
    # When the fields disagree on n the majority is right, so that the error names the odd one out.
    given = [values[name] for name in ("q", "P", "G", "A", "lb", "ub")]
    votes = Counter(value.shape[-1] for value in given if value is not None and value.ndim > 0)
    sizes = {"n": votes.most_common(1)[0][0]}
    for (matrix, _), rows in zip(BLOCKS, ("m", "p"), strict=True):
        value = values[matrix]
        # A matrix of too few dimensions is reported with the other shapes.
        sizes[rows] = 0 if value is None or value.ndim < 2 else value.shape[-2]
    return sizes


def _require_shapes(values: Mapping[str, Block | None], sizes: Mapping[str, int]) -> None:
    for name, value in values.items():
        if value is None:
            continue
        dimensions = DIMENSIONS[name]
        expected = tuple(sizes[d] for d in dimensions)
        if value.ndim < len(dimensions) or value.shape[-len(dimensions) :] != expected:
            # G and A set m and p, so only their columns can be wrong.
            known = [d for d in dict.fromkeys(dimensions) if name not in ("G", "A") or d == "n"]
            sides = ", ".join(f"{d} = {sizes[d]}" for d in known)
            wanted = "..., " + ", ".join(dimensions)
            raise ValueError(f"{name} must have shape ({wanted}) with {sides}, got {tuple(value.shape)}")


def _broadcast(leads: list[tuple[int, ...]], given: Mapping[str, tuple[int, ...] | None]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        shapes = ", ".join(f"{name} {shape}" for name, shape in given.items() if shape is not None)
        raise ValueError(f"the batch dimensions do not broadcast together: {shapes}") from None


def _invalid_instances(values: Mapping[str, Block | None], batch: tuple[int, ...]) -> NDArray[np.bool_]:
    invalid = np.zeros(batch, dtype=np.bool_)
    for name, value in values.items():
        if value is None:
            continue
        entries: Any = value.data if is_sparse(value) else value
        wrong = _wrong_entries(name, entries)
        if is_sparse(value) or not leading(name, value):
            if wrong.any():
                raise ValueError(_complaint(name, entries[wrong][0]))
        else:
            axes = tuple(range(-len(DIMENSIONS[name]), 0))
            invalid |= wrong.any(axis=axes)
    lb, ub = values["lb"], values["ub"]
    if lb is not None and ub is not None:
        crossed = lb > ub
        if lb.ndim == ub.ndim == 1 and crossed.any():
            i = int(np.argmax(crossed))
            raise ValueError(f"lb must not exceed ub, got lb[{i}] = {lb[i]:g} and ub[{i}] = {ub[i]:g}")
        invalid |= crossed.any(axis=-1)
    return invalid


def _wrong_entries(name: str, entries: Array) -> NDArray[np.bool_]:
    wrong: NDArray[np.bool_] = ~np.isfinite(entries)
    if name in ABSENT_ROW:
        wrong &= entries != ABSENT_ROW[name]
    return wrong


def _complaint(name: str, entry: float) -> str:
    if np.isnan(entry):
        return f"{name} must not hold NaN"
    allowed = f" other than {ABSENT_ROW[name]:+}" if name in ABSENT_ROW else ""
    return f"{name} must not hold an infinity{allowed}, got {entry:+}"
