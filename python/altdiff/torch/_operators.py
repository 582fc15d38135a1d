"""The layer as operators of torch, for graphs: tensors and a string in, tensors out, nothing kept.

`torch.compile` and `torch.export` cannot carry a solved batch from the forward to the backward pass, so the
derivative solves again, from the solution: once for a first derivative, which the core has ready; in pieces
for those of higher order. Everything else is as in `_transform`.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._C._functorch import is_batchedtensor, is_legacy_batchedtensor
from torch.autograd import forward_ad

from altdiff import _layer
from altdiff._dense import COTANGENTS
from altdiff._fields import DIMENSIONS, FIELDS, POINT
from altdiff._settings import native_settings
from altdiff.torch._adjoint import Guard, gradients, kept
from altdiff.torch._batching import batch_fields, batch_vectors
from altdiff.torch._kkt import flat_columns, inner_shape, solve_columns
from altdiff.torch._least import Asked, Maps, filled, flat_gradients, only_x, solve_gradients
from altdiff.torch._outputs import OUTPUTS, REPORT, STATUS, outputs_of
from altdiff.torch._problem import problem_from
from altdiff.torch._products import Vector
from altdiff.torch._tensors import to_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from altdiff._binding import NativeSettings
    from altdiff._layer import Solved
    from altdiff.torch._products import Fields

_FIELDS = "Tensor P, Tensor q, Tensor? G, Tensor? h, Tensor? A, Tensor? b, Tensor? lb, Tensor? ub"
_POINT = "Tensor x, Tensor y, Tensor z, Tensor z_box"
_BARS = "Tensor? x_bar, Tensor? y_bar, Tensor? z_bar, Tensor? box_bar, Tensor? objective_bar"
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
    schema=f"({_FIELDS}, {_POINT}, {_RIGHT_SIDE}, str text, int columns, bool several_x)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
)
def kkt_operator(*arguments: Any) -> tuple[Tensor, ...]:
    """(V1) at the solution that the fields have, which is near the point. False: every x is unique."""
    fields, point, right_side, text, columns, _ = _parted(arguments)
    return solve_columns(solved_batch(fields, text, point), columns, right_side)


@torch.library.custom_op(
    "altdiff::project_flat",
    mutates_args=(),
    schema=f"({_FIELDS}, {_POINT}, Tensor v, str text, int columns) -> Tensor",
)
def flat_operator(*arguments: Any) -> Tensor:
    """(L2) at the solution that the fields have, which is near the point."""
    fields, point, (v,), text, columns = _parted(arguments, 1)
    return flat_columns(solved_batch(fields, text, point), columns, v)


@torch.library.custom_op(
    "altdiff::pull_back",
    mutates_args=(),
    schema=f"({_FIELDS}, {_POINT}, {_BARS}, str text, bool[] needed)"
    f" -> ({', '.join(['Tensor'] * len(FIELDS))})",
)
def pull_back_operator(*arguments: Any) -> tuple[Tensor, ...]:
    """Gradients of the fields that need one, and nothing for the others; without a derivative of its own."""
    fields, point, bars, text, needed = _parted(arguments, len(COTANGENTS))
    solved = solved_batch(fields, text, point)
    cotangents = {
        name: None if bar is None else bar.numpy() for name, bar in zip(COTANGENTS, bars, strict=True)
    }
    found = _layer.vjp(solved, cotangents, [name for name, need in zip(FIELDS, needed, strict=True) if need])
    return tuple(
        to_tensor(np.asarray(found[name])) if name in found and field is not None else torch.empty(0)
        for name, field in zip(FIELDS, fields, strict=True)
    )


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
    _, point, right_side, _, columns, _ = _parted(arguments)
    inner = inner_shape(right_side, columns)
    return tuple(part.new_empty((*part.shape[:-1], *inner, part.shape[-1])) for part in point)


@flat_operator.register_fake
def _(*arguments: Any) -> Tensor:
    _, (x, *_), v, _, columns = _parted(arguments, 1)
    flat: Tensor = x.new_empty((*x.shape[:-1], *inner_shape(v, columns), x.shape[-1]))
    return flat


@pull_back_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    fields, (x, *_), _, _, needed = _parted(arguments, len(COTANGENTS))
    return tuple(
        x.new_empty(field.shape) if need and field is not None else torch.empty(0)
        for field, need in zip(fields, needed, strict=True)
    )


def _save_solve(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.text = inputs[len(FIELDS)]
    ctx.several_x = _several_x(output[OUTPUTS.index("unique")])
    ctx.save_for_backward(*inputs[: len(FIELDS)], *output[: len(POINT)], output[STATUS])
    ctx.mark_non_differentiable(*output[STATUS:])
    ctx.set_materialize_grads(False)


def _solve_backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    point = saved[len(FIELDS) : -1]
    needed = tuple(ctx.needs_input_grad[: len(FIELDS)])
    given = bars[: len(COTANGENTS)]
    # A gradient that will be differentiated again, or whose cotangents are a batch, needs a history.
    if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active() or any(map(_is_batch, given)):
        guard = _guard(ctx.text)
        maps = _maps(point, ctx.text, ctx.several_x)
        return (*gradients(maps, guard, kept(saved, guard), needed, given), None)
    found = pull_back_operator(*saved[: len(FIELDS)], *point, *given, ctx.text, needed)
    return (*(value if need else None for value, need in zip(found, needed, strict=True)), None)


def _save_kkt(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    fields, point, right_side, ctx.text, ctx.columns, ctx.several_x = _parted(inputs)
    ctx.save_for_backward(*fields, *point, *output, *(right_side if ctx.several_x else ()))
    ctx.set_materialize_grads(False)


def _kkt_backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
    fields, point, output, *right_side = _parted((*ctx.saved_tensors,))
    solution = Vector(*output)
    maps = _maps(point, ctx.text, ctx.several_x, ctx.columns)
    asked = Asked(fields, ctx.needs_input_grad, ctx.columns)
    start = Vector(*right_side) if ctx.several_x else None
    (P, G, A), adjoint = solve_gradients(maps, asked, start, solution, filled(bars, solution))
    return (P, None, G, None, A, *(None,) * (3 + len(POINT)), *adjoint, None, None, None)


def _save_flat(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    fields, point, (v,), ctx.text, ctx.columns = _parted(inputs, 1)
    ctx.save_for_backward(*fields, *point, v, output)
    ctx.set_materialize_grads(False)


def _flat_backward(ctx: Any, bar: Tensor | None) -> tuple[Tensor | None, ...]:
    if bar is None:
        return (None,) * (len(FIELDS) + len(POINT) + 3)
    fields, point, (v,), flat = _parted(ctx.saved_tensors, 1)
    maps, asked = _maps(point, ctx.text, True, ctx.columns), Asked(fields, ctx.needs_input_grad, ctx.columns)
    whole = only_x(v.expand(flat.shape), Vector(*point))
    (P, G, A), own = flat_gradients(maps, asked, whole, flat, bar)
    return (P, None, G, None, A, *(None,) * (3 + len(POINT)), own, None, None)


def _maps(point: tuple[Tensor, ...], text: str, several_x: bool, columns: int = 0) -> Maps:
    start = tuple([part.detach() for part in point])  # where the search begins has no influence on its end

    def solve(fields: Fields, right_side: Vector) -> Vector:
        return Vector(*kkt_operator(*fields, *start, *right_side, text, columns, several_x))

    def flat(fields: Fields, v: Tensor) -> Tensor:
        part: Tensor = flat_operator(*fields, *start, v, text, columns)
        return part

    return Maps(solve, flat if several_x else None)


def _several_x(unique: Tensor) -> bool:
    """Whether some x may be one of many: nobody knows while a graph is drawn."""
    drawn = torch._C._len_torch_dispatch_stack() > 0 or type(unique) is not torch.Tensor
    return drawn or _is_batch(unique) or not bool(unique.all())


def _is_batch(tensor: Tensor | None) -> bool:
    """Whether one of torch's two vmaps hides its numbers."""
    return tensor is not None and (is_legacy_batchedtensor(tensor) or is_batchedtensor(tensor))


def _solve_vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    fields = batch_fields(arguments[: len(FIELDS)], dims[: len(FIELDS)])
    return solve_operator(*fields, arguments[len(FIELDS)]), (0,) * len(OUTPUTS)


def _kkt_vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    fields, vectors, columns, place = _batched(arguments, dims, len(POINT))
    moved = kkt_operator(*fields, *vectors, arguments[-3], columns, arguments[-1])
    return moved, (place,) * len(POINT)


def _flat_vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    fields, vectors, columns, place = _batched(arguments, dims, 1)
    return flat_operator(*fields, *vectors, arguments[-2], columns), place


def _batched(
    arguments: tuple[Any, ...], dims: tuple[Any, ...], count: int
) -> tuple[list[Any], list[Tensor], int, int]:
    """Fields, point and vectors with the new dimension; the columns there are now, and where it is."""
    fields, point, vectors, _, columns, *_ = _parted(arguments, count)
    field_dims, point_dims, vector_dims, *_ = _parted(dims, count)
    own = any(dim is not None for dim in field_dims)
    moved, place = batch_vectors(vectors, vector_dims, columns, own)
    start, _ = batch_vectors(point, point_dims, 0, own=True) if own else (point, 0)
    return batch_fields(fields, field_dims), [*start, *moved], columns if own else columns + 1, place


solve_operator.register_autograd(_solve_backward, setup_context=_save_solve)
kkt_operator.register_autograd(_kkt_backward, setup_context=_save_kkt)
flat_operator.register_autograd(_flat_backward, setup_context=_save_flat)
if hasattr(solve_operator, "register_vmap"):  # since torch 2.5
    solve_operator.register_vmap(_solve_vmap)
    kkt_operator.register_vmap(_kkt_vmap)
    flat_operator.register_vmap(_flat_vmap)


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


def _parted(values: tuple[Any, ...], count: int = len(POINT)) -> tuple[Any, ...]:
    """Fields, point and `count` vectors, then what comes after, one by one."""
    first, second = len(FIELDS), len(FIELDS) + len(POINT)
    third = second + count
    return values[:first], values[first:second], values[second:third], *values[third:]
