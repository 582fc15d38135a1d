"""The layer under every transform of torch: derivatives of any order, forward and reverse, and `vmap`.

Two functions whose derivatives are written with themselves. On the active set the solution is that of a linear
system, so both have the same derivative: another solve with the same matrix, and products of two KKT vectors.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad
from torch.autograd.forward_ad import _set_fwd_grad_enabled

from altdiff import _layer
from altdiff._fields import FIELDS, POINT
from altdiff._layer import Solved
from altdiff._status import Status
from altdiff.torch._batching import batch_fields, batch_vectors
from altdiff.torch._products import (
    Vector,
    field_gradients,
    field_tangents,
    matrix_gradients,
    matrix_tangent,
    plus,
)
from altdiff.torch._tensors import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Fields = tuple[Tensor | None, ...]

# What else a solution says of each instance, in the order of the outputs of `Solution`.
REPORT = (
    "status",
    "iterations",
    "primal_residual",
    "dual_residual",
    "duality_gap",
    "degenerate",
    "unique",
    "margin",
)
OUTPUTS = (*POINT, "objective", *REPORT)


class SolveFields(torch.autograd.Function):
    """x, y, z, z_box, objective and the report as functions of float64 fields; then the solved batch itself.

    `solve` makes a solved batch of the fields, or knows it already.
    """

    @staticmethod
    def forward(solve: Callable[..., Solved], *fields: Any) -> tuple[Any, ...]:
        """New tensors."""
        solved = solve(fields)
        parts = [solved.part(name) for name in (*POINT, "objective")]
        report = [solved.report[name].copy() for name in REPORT]
        return (*(to_tensor(array) for array in (*parts, *report)), solved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the point with its history: second derivatives go through it."""
        fields = [value if isinstance(value, torch.Tensor) else None for value in inputs[1:]]
        kept = (*fields, *output[: len(POINT)], output[len(POINT) + 1])
        ctx.solved = output[-1]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        ctx.mark_non_differentiable(*output[len(POINT) + 1 : -1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        """(V1)-(V9)."""
        fields, point, failed = _kept(ctx.solved, ctx.saved_tensors)
        needed = ctx.needs_input_grad[1:]
        return (None, *_gradients(ctx.solved, needed, fields, point, failed, bars))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """(T1), and the envelope theorem for the objective."""
        with _every_forward_level():
            fields, point, failed = _kept(ctx.solved, tuple(map(_primal, ctx.saved_tensors)))
            changes = tuple(map(_primal, tangents[1:]))
            right_side, objective = field_tangents(changes, point, fields)
            moved = solve_kkt(ctx.solved, fields, _filled(right_side, point), failed)
            objective = _silenced(objective, failed, ctx.solved)
        return (*moved, objective, *(None,) * (len(REPORT) + 1))

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], solve: Any, *fields: Any) -> tuple[Any, Any]:
        """One solve of the larger batch."""
        q, q_dim = fields[1], dims[2]
        variables = q.movedim(q_dim, 0).shape[-1] if q_dim is not None else q.shape[-1]
        outputs = SolveFields.apply(solve, *batch_fields(fields, dims[1:], variables))  # type: ignore[no-untyped-call]
        return outputs, (*(0,) * len(OUTPUTS), None)


class SolveKkt(torch.autograd.Function):
    """(V1) for a solved batch: linear in the right-hand side, and symmetric.

    The fields come along so that `vmap` knows whether the instances differ along its dimension. `columns`
    counts the dimensions that only the right-hand side has.
    """

    @staticmethod
    def forward(solved: Solved, columns: int, *inputs: Any) -> tuple[Tensor, ...]:
        """New tensors."""
        return _solve_columns(solved, columns, inputs[len(FIELDS) :])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the solution with its history."""
        ctx.solved, ctx.columns = inputs[:2]
        kept = (*inputs[2 : 2 + len(FIELDS)], *output)
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        """Another solve with the same matrix."""
        fields, solution = ctx.saved_tensors[: len(FIELDS)], Vector(*ctx.saved_tensors[len(FIELDS) :])
        right_side = _filled(bars, solution)
        adjoint = Vector(*SolveKkt.apply(ctx.solved, ctx.columns, *fields, *right_side))  # type: ignore[no-untyped-call]
        needed = ctx.needs_input_grad[2:]
        P, G, A = matrix_gradients(adjoint, solution, fields, needed, ctx.columns)
        return (None, None, P, None, G, None, A, None, None, None, *adjoint)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """Another solve with the same matrix."""
        with _every_forward_level():
            saved = tuple(map(_primal, ctx.saved_tensors))
            fields, solution = saved[: len(FIELDS)], Vector(*saved[len(FIELDS) :])
            changes = tuple(map(_primal, tangents[2:]))
            matrices = matrix_tangent(changes[: len(FIELDS)], solution, ctx.columns)
            sums = [plus(a, b) for a, b in zip(matrices, changes[len(FIELDS) :], strict=True)]
            return tuple(SolveKkt.apply(ctx.solved, ctx.columns, *fields, *_filled(tuple(sums), solution)))  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], solved: Solved, columns: int, *inputs: Any
    ) -> tuple[tuple[Tensor, ...], int]:
        """More instances, or more right-hand sides for each."""
        fields, field_dims = inputs[: len(FIELDS)], dims[2 : 2 + len(FIELDS)]
        own = any(dim is not None for dim in field_dims)
        vectors, place = batch_vectors(inputs[len(FIELDS) :], dims[2 + len(FIELDS) :], columns, own)
        if own:
            fields = batch_fields(fields, field_dims, vectors[0].shape[-1])
        else:
            columns += 1
        return SolveKkt.apply(solved, columns, *fields, *vectors), place  # type: ignore[no-untyped-call]


def differentiable_gradients(
    solved: Solved, needed: tuple[bool, ...], fields: Fields, bars: Fields
) -> list[Tensor | None]:
    """The gradients of the fields for cotangents of x, y, z, ..., with a history that leads to both."""
    doubles = tuple([None if field is None else field.double() for field in fields])
    outputs = SolveFields.apply(lambda _: solved, *doubles)  # type: ignore[no-untyped-call]
    point, failed = _point(solved, outputs[: len(POINT)], outputs[len(POINT) + 1])
    padded = (*(None if bar is None else bar.double() for bar in bars), *(None,) * len(OUTPUTS))
    gradients = _gradients(solved, needed, doubles, point, failed, padded)
    return [
        None if gradient is None or field is None else gradient.to(field.dtype)
        for gradient, field in zip(gradients, fields, strict=True)
    ]


def _gradients(
    solved: Solved,
    needed: tuple[bool, ...],
    fields: Fields,
    point: Vector,
    failed: Tensor | None,
    bars: Fields,
) -> list[Tensor | None]:
    point_bars, objective_bar = bars[: len(POINT)], bars[len(POINT)]
    adjoint = None
    if any(bar is not None for bar in point_bars):
        adjoint = solve_kkt(solved, fields, _filled(point_bars, point), failed)
    if objective_bar is not None:
        objective_bar = _silenced(objective_bar, failed, solved)
    return field_gradients(adjoint, objective_bar, point, fields, needed)


def solve_kkt(solved: Solved, fields: Fields, right_side: Vector, failed: Tensor | None) -> Vector:
    """Solves (V1); an instance without a derivative has what the failure policy says, or zero for zero."""
    solution = SolveKkt.apply(solved, 0, *fields, *right_side)  # type: ignore[no-untyped-call]
    if failed is None:
        return Vector(*solution)
    zero = torch.stack([(part == 0).all(-1) for part in right_side]).all(0)
    silent = (failed & zero).unsqueeze(-1)
    return Vector(*(torch.where(silent, 0.0, part) for part in solution))


def _solve_columns(solved: Solved, columns: int, right_side: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The core takes one right-hand side for each instance at a time.

    (A2) is symmetric, so the adjoint is the tangent of the vectors q, -b, -h and minus the active bounds.
    """
    layout = solved.batch.problem.layout
    shapes = [part.shape[part.dim() - 1 - columns : -1] for part in right_side]
    inner = torch.broadcast_shapes(*shapes)
    batch = layout.batch
    count = math.prod(inner)
    arrays = [
        part.detach().expand(*batch, *inner, part.shape[-1]).reshape(*batch, count, part.shape[-1]).numpy()
        for part in right_side
    ]
    solutions = []
    for column in range(count):
        x, y, z, z_box = (array[..., column, :] for array in arrays)
        changes = {"q": x, "b": -y, "h": -z, "lb": -z_box, "ub": -z_box}
        known = {name: change for name, change in changes.items() if layout.used[name] is not None}
        solutions.append(_layer.jvp(solved, known))
    parts = []
    for name, part in zip(POINT, right_side, strict=True):
        columnwise = [to_tensor(solution[name]) for solution in solutions]
        size = part.shape[-1]
        stacked = torch.stack(columnwise, -2) if columnwise else part.new_zeros(*batch, 0, size)
        parts.append(stacked.reshape(*batch, *inner, size))
    return tuple(parts)


def _kept(solved: Solved, saved: tuple[Any, ...]) -> tuple[Fields, Vector, Tensor | None]:
    """The fields, the point, and which instances failed (None: none did); these count as zero."""
    point, failed = _point(solved, saved[len(FIELDS) : -1], saved[-1])
    return saved[: len(FIELDS)], point, failed


def _point(solved: Solved, parts: tuple[Tensor, ...], status: Tensor) -> tuple[Vector, Tensor | None]:
    if solved.batch.all_solved:
        return Vector(*parts), None
    failed = status != Status.SOLVED
    return Vector(*(torch.where(failed.unsqueeze(-1), 0.0, part) for part in parts)), failed


def _filled(parts: tuple[Tensor | None, ...], like: Vector) -> Vector:
    return Vector(*(torch.zeros_like(b) if a is None else a for a, b in zip(parts, like, strict=True)))


def _silenced(value: Tensor, failed: Tensor | None, solved: Solved) -> Tensor:
    """What stands for the derivative of a failed instance, unless it is zero."""
    if failed is None:
        return value
    return torch.where(failed & (value != 0), solved.without_derivative, value)


def _every_forward_level() -> Any:
    """Torch turns forward mode off inside a `jvp`, and the tangents of an outer one would be lost."""
    return _set_fwd_grad_enabled(True) if torch._C._are_functorch_transforms_active() else nullcontext()


def _primal(value: Any) -> Any:
    """Without the tangent of the innermost forward mode, whose rule is being computed."""
    if not isinstance(value, torch.Tensor) or not torch._C._are_functorch_transforms_active():
        return value
    return forward_ad.unpack_dual(value).primal if forward_ad._current_level >= 0 else value
