"""How rows with a budget lie in memory: what NumPy and torch share."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from altdiff._binding import NativeLimit


class Rows(NamedTuple):
    """Rows along the last dimension, and limits as the core takes them.

    A limit is a number or an array: one number, one for each entry of a row, or one for each entry of y; the
    total has one for each row.
    """

    y: Any
    lower: Any
    upper: Any
    total: Any
    place: int | None  # where the rows' dimension was, from the end; None: there was none


def checked_number(name: str, value: Any) -> float:
    """`value` as a float, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number or an array of them, got {type(value).__name__}")
    number = float(value)
    if not -math.inf <= number <= math.inf:  # a compiler has no graph for math.isnan
        raise ValueError(f"{name} must not be NaN")
    return number


def check_numbers(softmax: bool, lower: Any, upper: Any, total: Any) -> None:
    """Mistakes that numbers alone show; those of arrays are the status of a row."""
    if isinstance(total, float) and not -math.inf < total < math.inf:
        raise ValueError("total must be finite")
    if not isinstance(lower, float):
        return
    if softmax and lower < 0:
        raise ValueError(f"lower must not be negative for softmax, got {lower}")
    if isinstance(upper, float) and not lower <= upper:
        raise ValueError(f"lower must not exceed upper, got {lower} and {upper}")


class Library(NamedTuple):
    """What NumPy and torch call differently."""

    dimension: str
    move: Any
    broadcast_to: Any
    broadcast_shapes: Any


def arrange(library: Library, values: list[Any], dim: int) -> Rows:
    """Of y, lower, upper and total."""
    y, lower, upper, total = values
    if y.ndim == 0 and dim in (-1, 0):
        return Rows(y.reshape(1), lower, upper, total, None)
    if not -y.ndim <= dim < y.ndim:
        raise IndexError(f"{library.dimension} must be between {-y.ndim} and {y.ndim - 1}, got {dim}")
    place = dim if dim < 0 else dim - y.ndim
    if not isinstance(total, float) and total.ndim > 0:
        total = _with_dimension(total, place)
    shapes = [tuple(v.shape) for v in (y, lower, upper, total) if not isinstance(v, float)]
    if any(shape != shapes[0] for shape in shapes):
        y = library.broadcast_to(y, library.broadcast_shapes(*shapes))
    if place != -1:
        y = library.move(y, place, -1)
    lower, upper = [_limit(library, v, place, y.shape) for v in (lower, upper)]
    if not isinstance(total, float) and total.ndim > 0:
        moved = library.move(_full(total, y.ndim), place, -1)
        total = library.broadcast_to(moved[..., 0], y.shape[:-1])
    return Rows(y, lower, upper, total, place)


def native_limit(value: Any, address: int, depth: int, row_stride: int, stride: int) -> NativeLimit:
    """A limit as the core takes it; `depth` is the number of dimensions of an array that no rows share."""
    if isinstance(value, float):
        return (value, 0, 0, 0)
    if value.ndim == 0:
        return (0.0, address, 0, 0)
    return (0.0, address, row_stride if value.ndim == depth else 0, stride)


def _with_dimension(total: Any, place: int) -> Any:
    """The total with a dimension of one where y has the rows'."""
    shape = (1,) * (-place - 1 - total.ndim) + tuple(total.shape)
    cut = len(shape) + 1 + place
    return total.reshape((*shape[:cut], 1, *shape[cut:]))


def _full(value: Any, depth: int) -> Any:
    return value.reshape((1,) * (depth - value.ndim) + tuple(value.shape))


def _limit(library: Library, value: Any, place: int, rows: Any) -> Any:
    """A number, numbers that all rows share, or all numbers."""
    if isinstance(value, float) or value.ndim == 0:
        return value
    moved = library.move(_full(value, len(rows)), place, -1)
    if all(size == 1 for size in moved.shape[:-1]) and moved.shape[-1] == rows[-1]:
        return moved.reshape(rows[-1:])
    return library.broadcast_to(moved, rows)
