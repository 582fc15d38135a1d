"""The layer as operators of torch, for graphs: tensors and a string in, tensors out, nothing kept.

`torch.compile` and `torch.export` cannot carry a solved batch from the forward to the backward pass, so the
derivative solves again, from the solution. Everything else is as in `_transform`.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd import forward_ad

from altdiff import _layer
from altdiff._fields import DIMENSIONS, FIELDS, POINT
from altdiff._settings import native_settings
from altdiff.torch._adjoint import Guard, filled, gradients, kept
from altdiff.torch._batching import batch_fields, batch_vectors
from altdiff.torch._kkt import inner_shape, solve_columns
from altdiff.torch._outputs import OUTPUTS, REPORT, STATUS, outputs_of
from altdiff.torch._problem import problem_from
from altdiff.torch._products import Vector, matrix_gradients

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from altdiff._binding import NativeSettings
    from altdiff._layer import Solved
    from altdiff.torch._adjoint import LinearSolve
    from altdiff.torch._products import Fields

_FIELDS = "Tensor P, Tensor q, Tensor? G, Tensor? h, Tensor? A, Tensor? b, Tensor? lb, Tensor? ub"
_POINT = "Tensor x, Tensor y, Tensor z, Tensor z_box"
_RIGHT_SIDE = "Tensor r_x, Tensor r_y, Tensor r_z, Tensor r_box"
_TYPES = {"status": torch.int64, "iterations": torch.int64, "degenerate": torch.bool, "unique": torch.bool}


def encode(on_failure: str, settings: Mapping[str, Any]) -> str:
    """Policy and settings as the operators take them."""
    return ";".join([on_failure, *[f"{name}={value!r}" for name, value in settings.items()]])


@lru_cache(maxsize=64)
def decode(text: str) -> tuple[str, NativeSettings, dict[str, Any]]:
    """What `encode` was given; the settings as the core takes them too."""
    on_failure, *options = text.split(";")
    pairs = (option.split("=", 1) for option in options)
    values = {
        name: float(value) if value in ("inf", "nan") else ast.literal_eval(value) for name, value in pairs
    }
    return on_failure, native_settings(values), values


def solved_batch(
    fields: tuple[Tensor | None, ...], text: str, point: tuple[Tensor, ...] | None = None
) -> Solved:
    """The fields, solved, from a point if there is one."""
    _require_no_tangents(fields)
    on_failure, settings, _ = decode(text)
    start = None
    if point is not None:  # of an instance that failed it may hold NaN
        start = {name: np.nan_to_num(part.numpy()) for name, part in zip(POINT, point, strict=True)}
    return _layer.settle(_layer.solve(problem_from(fields), settings, start), on_failure)


@torch.library.custom_op(
    "altdiff::solve_qp",
    mutates_args=(),
    schema=f"({_FIELDS}, str text) -> ({', '.join(['Tensor'] * len(OUTPUTS))})",
)
def solve_operator(*arguments: Any) -> tuple[Tensor, ...]:
    """The OUTPUTS, of float64 fields."""
    return outputs_of(solved_batch(arguments[: len(FIELDS)], arguments[len(FIELDS)]))


@torch.library.custom_op(
    "altdiff::solve_kkt",
    mutates_args=(),
    schema=f"({_FIELDS}, {_POINT}, {_RIGHT_SIDE}, str text, int columns) -> (Tensor, Tensor, Tensor, Tensor)",
)
def kkt_operator(*arguments: Any) -> tuple[Tensor, ...]:
    """(V1) at the solution that the fields have, which is near the point."""
    fields, point, right_side, text, columns = _parted(arguments)
    return solve_columns(solved_batch(fields, text, point), columns, right_side)


@solve_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    fields = arguments[: len(FIELDS)]
    q = fields[1]
    leads = [
        field.shape[: max(0, field.dim() - len(DIMENSIONS[name]))]
        for name, field in zip(FIELDS, fields, strict=True)
        if field is not None
    ]
    batch = torch.broadcast_shapes(*leads)  # type: ignore[no-untyped-call]
    sizes = {"n": q.shape[-1], "p": _rows(fields[4]), "m": _rows(fields[2])}
    point = [q.new_empty((*batch, sizes[size]), dtype=torch.float64) for size in POINT.values()]
    report = [q.new_empty(batch, dtype=_TYPES.get(name, torch.float64)) for name in ("objective", *REPORT)]
    return (*point, *report)


@kkt_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    _, point, right_side, _, columns = _parted(arguments)
    inner = inner_shape(right_side, columns)
    return tuple(part.new_empty((*part.shape[:-1], *inner, part.shape[-1])) for part in point)


def _save_solve(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.text = inputs[len(FIELDS)]
    ctx.save_for_backward(*inputs[: len(FIELDS)], *output[: len(POINT)], output[STATUS])
    ctx.mark_non_differentiable(*output[STATUS:])
    ctx.set_materialize_grads(False)


def _solve_backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    guard = _guard(ctx.text)
    point = saved[len(FIELDS) : -1]
    solve = _linear_solve(point, ctx.text)
    needed = tuple(ctx.needs_input_grad[: len(FIELDS)])
    return (*gradients(solve, guard, kept(saved, guard), needed, bars), None)


def _save_kkt(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    fields, point, _, ctx.text, ctx.columns = _parted(inputs)
    ctx.save_for_backward(*fields, *point, *output)
    ctx.set_materialize_grads(False)


def _kkt_backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
    fields, point, output, *_ = _parted((*ctx.saved_tensors, ctx.text, ctx.columns))
    solution = Vector(*output)
    adjoint = _linear_solve(point, ctx.text, ctx.columns)(fields, filled(bars, solution))
    P, G, A = matrix_gradients(adjoint, solution, fields, ctx.needs_input_grad, ctx.columns)
    return (P, None, G, None, A, *(None,) * (3 + len(POINT)), *adjoint, None, None)


def _linear_solve(point: tuple[Tensor, ...], text: str, columns: int = 0) -> LinearSolve:
    start = tuple([part.detach() for part in point])  # where the search begins has no influence on its end

    def solve(fields: Fields, right_side: Vector) -> Vector:
        return Vector(*kkt_operator(*fields, *start, *right_side, text, columns))

    return solve


def _solve_vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    fields = batch_fields(arguments[: len(FIELDS)], dims[: len(FIELDS)])
    return solve_operator(*fields, arguments[len(FIELDS)]), (0,) * len(OUTPUTS)


def _kkt_vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    fields, point, right_side, text, columns = _parted(arguments)
    field_dims, point_dims, right_dims, *_ = _parted(dims)
    own = any(dim is not None for dim in field_dims)
    vectors, place = batch_vectors(right_side, right_dims, columns, own)
    start, _ = batch_vectors(point, point_dims, 0, own=True) if own else (point, 0)
    moved = kkt_operator(
        *batch_fields(fields, field_dims), *start, *vectors, text, columns if own else columns + 1
    )
    return moved, (place,) * len(POINT)


solve_operator.register_autograd(_solve_backward, setup_context=_save_solve)
kkt_operator.register_autograd(_kkt_backward, setup_context=_save_kkt)
if hasattr(solve_operator, "register_vmap"):  # since torch 2.5
    solve_operator.register_vmap(_solve_vmap)
    kkt_operator.register_vmap(_kkt_vmap)


def _guard(text: str) -> Guard:
    on_failure = text.split(";", 1)[0]
    return Guard(on_failure != "raise", float("nan") if on_failure == "nan" else 0.0)


def _require_no_tangents(fields: tuple[Tensor | None, ...]) -> None:
    """An operator has no forward mode, and torch would drop the tangents without a word."""
    if forward_ad._current_level >= 0 and any(map(_has_tangent, fields)):
        raise RuntimeError(
            "forward mode does not reach through a compiled graph: call the layer outside of torch.compile"
        )


def _has_tangent(field: Tensor | None) -> bool:
    unpack: Any = forward_ad.unpack_dual
    try:
        return field is not None and unpack(field).tangent is not None
    except RuntimeError:  # torch cannot look inside while it draws a graph, of which the tangents are part
        return False


def _rows(matrix: Tensor | None) -> int:
    return 0 if matrix is None or matrix.dim() < 2 else matrix.shape[-2]


def _parted(values: tuple[Any, ...]) -> tuple[Any, Any, Any, Any, Any]:
    """Fields, point, right-hand side, text and columns."""
    first, second = len(FIELDS), len(FIELDS) + len(POINT)
    third = second + len(POINT)
    return values[:first], values[first:second], values[second:third], values[third], values[third + 1]
