"""A batch of quadratic programs as arrays: the one place where a user's arguments are checked.

The rules, which every front end shares:
- Lists, integers, float32, read-only and non-contiguous arrays are accepted, and never written to.
- A sparse matrix may be of any scipy format; duplicates are summed and indices sorted on a copy. A list of
  sparse matrices that store the same entries has one for each instance.
- Only the symmetric part of P counts.
- lb and ub may be scalars. A block whose matrix or right-hand side holds no entry is absent.
- h = +inf, lb = -inf and ub = +inf mean that the row does not exist.
- What is wrong in an array without batch dimensions is an error that names the field. What is wrong in one
  instance of a batch makes that instance invalid, and leaves the others alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._arrays import full_csc, is_sparse, real_array, sparse_matrix
from altdiff._fields import ABSENT_ROW, DIMENSIONS, FIELDS, MATRICES
from altdiff._layout import Layout, make_layout
from altdiff._stack import SparseStack, is_list_of_sparse, stack_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._binding import Blocks

Index = tuple[int, ...]


@dataclass(eq=False)
class Problem:
    """A batch of quadratic programs, its shapes checked."""

    values: dict[str, Block | None]  # float64; absent fields are None
    layout: Layout
    sparse: bool  # P, G or A is a scipy.sparse matrix, or a stack of them

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch dimensions; () for one unbatched instance."""
        return self.layout.batch

    def addresses(self) -> tuple[int, ...]:
        """Where the fields of a dense problem lie in memory; zero where absent."""
        return tuple(0 if value is None else value.ctypes.data for value in self.values.values())

    def indices(self) -> Iterator[Index]:
        """The index of each instance, in order."""
        return iter(np.ndindex(*self.batch))

    def own_index(self, name: str, index: Index) -> Index:
        """Where the instance at `index` lies in a field that may be shared, or broadcast."""
        lead = self.layout.leads.get(name, ())
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
        made_sparse = self.sparse and name in MATRICES and not is_sparse(own)
        return full_csc(own) if made_sparse else own

    def invalid(self) -> NDArray[np.bool_]:
        """Instances with NaN, a forbidden infinity, or lb > ub; raises if an unbatched array has them."""
        invalid = np.zeros(self.batch, dtype=np.bool_)
        for name, value in self.values.items():
            if value is None:
                continue
            stored = is_sparse(value) or isinstance(value, SparseStack)
            entries: Any = value.data if stored else value
            wrong = _wrong_entries(name, entries)
            if self.layout.leads.get(name, ()) == ():
                if wrong.any():
                    raise ValueError(_complaint(name, entries[wrong][0]))
            else:
                axes = (-1,) if stored else tuple(range(-len(DIMENSIONS[name]), 0))
                invalid |= wrong.any(axis=axes)
        return invalid | self._crossed_bounds()

    def _crossed_bounds(self) -> NDArray[np.bool_]:
        lb, ub = self.values["lb"], self.values["ub"]
        if lb is None or ub is None:
            return np.zeros((), dtype=np.bool_)
        crossed: NDArray[np.bool_] = lb > ub
        if lb.ndim == ub.ndim == 1 and crossed.any():
            i = int(np.argmax(crossed))
            raise ValueError(f"lb must not exceed ub, got lb[{i}] = {lb[i]:g} and ub[{i}] = {ub[i]:g}")
        return np.asarray(crossed.any(axis=-1))


def make_problem(arguments: Mapping[str, MatrixLike | None]) -> Problem:
    """Checks types and shapes of the eight arguments, and says what is wrong by the field's name."""
    values = {name: _value(name, arguments.get(name)) for name in FIELDS}
    dense = tuple(not is_sparse(value) for value in values.values())
    layout = make_layout(
        tuple(None if value is None else tuple(value.shape) for value in values.values()), dense
    )
    for name, shape in layout.used.items():
        value = values[name]
        if shape is None:
            values[name] = None
        elif value is not None and value.ndim == 0:
            values[name] = np.full(shape, float(value))
    stacked = any(isinstance(value, SparseStack) for value in values.values())
    return Problem(values, layout, stacked or not all(dense))


def _value(name: str, value: MatrixLike | None) -> Block | None:
    if value is None:
        return None
    if isinstance(value, SparseStack):
        return value
    stacked = is_list_of_sparse(value)
    if not stacked and not is_sparse(value):
        return real_array(name, value)
    if name not in MATRICES:
        raise TypeError(f"{name} must be a dense array: only P, G and A may be sparse")
    return stack_of(name, value) if is_list_of_sparse(value) else sparse_matrix(name, value)


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
