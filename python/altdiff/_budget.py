"""`sparsemax` and `softmax` with limits and any total, for NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from altdiff._budget_layout import Library, Rows, arrange, check_numbers, checked_number, native_limit
from altdiff._errors import SolveError
from altdiff._layer import check_policy
from altdiff._native import core
from altdiff._status import Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from altdiff._binding import NativeBudget

    Numbers = NDArray[Any]

_NUMPY = Library("axis", np.moveaxis, np.broadcast_to, np.broadcast_shapes)
_KINDS = ("sparsemax", "softmax")
_STATE = 4  # numbers that the core keeps of a row; the first is the status


def sparsemax(
    y: ArrayLike,
    upper: ArrayLike | None = None,
    lower: ArrayLike = 0.0,
    total: ArrayLike = 1.0,
    axis: int = -1,
    on_failure: str = "raise",
) -> Numbers:
    """The x closest to y with sum(x) = total and lower <= x <= upper along `axis`.

    `upper` and `lower` are numbers, or arrays that broadcast with y; `total` is a number, or an array that
    broadcasts with y without `axis`. -inf in y is a masked entry, where x is `lower`. `on_failure` says what
    becomes of rows without a solution: "raise" a SolveError, "nan", or "zero".
    """
    return solve_budget("sparsemax", y, upper, lower, total, axis, on_failure).x


def softmax(
    y: ArrayLike,
    upper: ArrayLike | None = None,
    lower: ArrayLike = 0.0,
    total: ArrayLike = 1.0,
    axis: int = -1,
    on_failure: str = "raise",
) -> Numbers:
    """The x that minimises -y'x + sum(x log x) with sum(x) = total and lower <= x <= upper along `axis`.

    Without limits it is the usual softmax, times total. The arguments are those of `sparsemax`; lower must
    not be negative.
    """
    return solve_budget("softmax", y, upper, lower, total, axis, on_failure).x


class BudgetGradient(NamedTuple):
    """Gradients of y, upper, lower and total, shaped as they were given."""

    y: Numbers
    upper: Numbers | None  # None: there was no upper limit
    lower: Numbers
    total: Numbers


@dataclass(frozen=True, eq=False)
class BudgetSolution:
    """x of `sparsemax` or `softmax`, what became of each row, and derivatives."""

    x: Numbers
    status: NDArray[np.int64]  # the integers of altdiff.Status
    _rows: _SolvedRows = field(repr=False)

    def vjp(self, x_bar: ArrayLike) -> BudgetGradient:
        """Gradients of a loss whose gradient with respect to x is `x_bar`."""
        return self._rows.vjp(x_bar)

    def jvp(
        self,
        y: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        total: ArrayLike | None = None,
    ) -> Numbers:
        """The change of x under changes of y, upper, lower and total, which broadcast; None: no change."""
        return self._rows.jvp(y, lower, upper, total).astype(self.x.dtype, copy=False)


def solve_budget(
    kind: str,
    y: ArrayLike,
    upper: ArrayLike | None = None,
    lower: ArrayLike = 0.0,
    total: ArrayLike = 1.0,
    axis: int = -1,
    on_failure: str = "raise",
) -> BudgetSolution:
    """`sparsemax` or `softmax`, whichever `kind` says, with status and derivatives."""
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    check_policy(on_failure)
    given = {"y": y, "lower": lower, "upper": math.inf if upper is None else upper, "total": total}
    arrays = {name: _array(name, value) for name, value in given.items()}
    y_array: Any = arrays["y"]
    if isinstance(y_array, float):
        y_array = np.asarray(y_array)
    limits = [arrays[name] for name in ("lower", "upper", "total")]
    check_numbers(kind == "softmax", *limits)
    dtype = np.result_type(*[v for v in (y_array, *limits) if not isinstance(v, float)])
    computed = np.float32 if dtype in (np.float16, np.float32) else np.float64
    values = [v if isinstance(v, float) else v.astype(computed, copy=False) for v in (y_array, *limits)]
    rows = arrange(_NUMPY, values, axis)
    shapes = [np.shape(v) for v in (y_array, *limits)]
    solved = _SolvedRows(kind == "softmax", _contiguous(rows), shapes, upper is not None, on_failure)
    return BudgetSolution(solved.placed(solved.x).astype(dtype, copy=False), solved.status, solved)


class _SolvedRows:
    """Rows in C order, and what the core says of them."""

    def __init__(
        self, softmax: bool, rows: Rows, shapes: list[tuple[int, ...]], capped: bool, on_failure: str
    ) -> None:
        self.softmax, self.rows, self.shapes, self.capped = softmax, rows, shapes, capped
        self.missing = np.nan if on_failure == "nan" else 0.0
        self.native = _native(softmax, rows)
        self.x = np.empty_like(rows.y)
        self.states = np.empty((*rows.y.shape[:-1], _STATE))
        failed = self.native.solve(self.x.ctypes.data, self.states.ctypes.data)
        self.status = self.states[..., 0].astype(np.int64)
        if failed and on_failure == "raise":
            raise SolveError(self.status, "budget")
        if failed and on_failure == "zero":
            self.x[self.status != Status.SOLVED] = 0

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles have: not the core's part, which knows the arrays by address."""
        return {name: value for name, value in self.__dict__.items() if name != "native"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.native = _native(self.softmax, self.rows)

    def placed(self, array: Numbers) -> Numbers:
        """With the rows along the user's axis."""
        if self.rows.place is None:
            return array.reshape(())
        return array if self.rows.place == -1 else np.moveaxis(array, -1, self.rows.place)

    def in_rows(self, name: str, value: ArrayLike, shape: tuple[int, ...], has_axis: bool = True) -> Numbers:
        """A direction of this shape, as the core takes it."""
        array = np.asarray(_array(name, value), self.x.dtype)
        try:
            array = np.broadcast_to(array, shape)
        except ValueError as error:
            raise ValueError(f"{name} must broadcast to {shape}, got shape {array.shape}") from error
        if has_axis:
            array = np.moveaxis(array.reshape(shape or (1,)), self.rows.place or -1, -1)
        return np.ascontiguousarray(array)

    def vjp(self, x_bar: ArrayLike) -> BudgetGradient:
        """(B5)"""
        bar = self.in_rows("x_bar", x_bar, self.placed(self.x).shape)
        y, lower, upper = (np.empty_like(self.x) for _ in range(3))
        total = np.empty(self.x.shape[:-1], self.x.dtype)
        targets = (y.ctypes.data, lower.ctypes.data, upper.ctypes.data, total.ctypes.data)
        self.native.vjp(self.x.ctypes.data, self.states.ctypes.data, bar.ctypes.data, targets, self.missing)
        full = (self.placed(y), self.placed(lower), self.placed(upper), total)
        y, lower, upper, total = [_summed(g, shape) for g, shape in zip(full, self.shapes, strict=True)]
        return BudgetGradient(y, upper if self.capped else None, lower, total)

    def jvp(
        self, y: ArrayLike | None, lower: ArrayLike | None, upper: ArrayLike | None, total: ArrayLike | None
    ) -> Numbers:
        """(B6)"""
        shape = self.placed(self.x).shape
        named = {"y": y, "lower": lower, "upper": upper}
        dots = [None if v is None else self.in_rows(name, v, shape) for name, v in named.items()]
        dots.append(None if total is None else self.in_rows("total", total, self.x.shape[:-1], False))
        d_y, d_lower, d_upper, d_total = [0 if dot is None else dot.ctypes.data for dot in dots]
        x_dot = np.empty_like(self.x)
        self.native.jvp(
            self.x.ctypes.data,
            self.states.ctypes.data,
            (d_y, d_lower, d_upper, d_total),
            x_dot.ctypes.data,
            self.missing,
        )
        return self.placed(x_dot)


def _summed(gradient: Numbers, shape: tuple[int, ...]) -> Numbers:
    """The gradient of an array of this shape, which was broadcast."""
    leading = gradient.ndim - len(shape)
    axes = [i for i in range(gradient.ndim) if i < leading or shape[i - leading] < gradient.shape[i]]
    return np.asarray(gradient.sum(axis=tuple(axes), keepdims=True).reshape(shape) if axes else gradient)


def _array(name: str, value: Any) -> Any:
    """A number, or an array of real numbers."""
    if isinstance(value, (int, float)):
        return checked_number(name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of real numbers: {error}") from error
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _contiguous(rows: Rows) -> Rows:
    lower, upper, total = [
        v if isinstance(v, float) else np.ascontiguousarray(v).reshape(v.shape) for v in rows[1:4]
    ]
    return Rows(np.ascontiguousarray(rows.y), lower, upper, total, rows.place)


def _native(softmax: bool, rows: Rows) -> NativeBudget:
    y, n, depth = rows.y, rows.y.shape[-1], rows.y.ndim
    lower, upper, total = [
        native_limit(v, 0 if isinstance(v, float) else v.ctypes.data, *layout)
        for v, layout in zip(rows[1:4], ((depth, n, 1), (depth, n, 1), (depth - 1, 1, 0)), strict=True)
    ]
    count = math.prod(y.shape[:-1])
    return core.BudgetCall(y.dtype == np.float32, softmax, count, n, y.ctypes.data, lower, upper, total, 0)
