"""The layer under every transform of torch: derivatives of any order, forward and reverse, and `vmap`.

Two functions whose derivatives are written with themselves. On the active set the solution is that of a
linear system, so both have the same derivative: another solve with the same matrix, and products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_legacy_batchedtensor

from altdiff._fields import FIELDS, POINT
from altdiff.torch._adjoint import Guard, filled, gradients, kept, tangents
from altdiff.torch._batching import batch_fields, batch_vectors
from altdiff.torch._dynamo import hidden
from altdiff.torch._kkt import solve_columns
from altdiff.torch._levels import all_forward_levels, primals, save, without_tangents
from altdiff.torch._operators import encode, kkt_operator, solve_operator
from altdiff.torch._outputs import OUTPUTS, REPORT, STATUS, outputs_of
from altdiff.torch._problem import constant
from altdiff.torch._products import Vector, matrix_gradients, matrix_tangent, plus
from altdiff.torch._sparse import attached, values_of
from altdiff.torch._tensors import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from altdiff._layer import Solved
    from altdiff.torch._adjoint import LinearSolve
    from altdiff.torch._products import Fields
    from altdiff.torch._sparse import Patterns


@dataclass(frozen=True)
class Solver:
    """Makes a solved batch of the fields, or knows it already."""

    solved_batch: Callable[[tuple[Any, ...]], Solved]
    patterns: Patterns | None  # of the fields of which only the stored entries are given


class SolveFields(torch.autograd.Function):
    """The OUTPUTS as functions of float64 fields; then the solved batch itself."""

    @staticmethod
    @hidden
    def forward(solver: Solver, *fields: Any) -> tuple[Any, ...]:
        """New tensors."""
        solved = solver.solved_batch(fields)
        if not is_watched(fields):
            return (*outputs_of(solved), solved)
        _require_dense(solver.patterns)
        return (*solve_operator(*without_tangents(fields), text_of(solved)), solved)

    @staticmethod
    @hidden
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the point with its history: second derivatives go through it."""
        fields = [value if isinstance(value, torch.Tensor) else None for value in inputs[1:]]
        ctx.solved = output[-1]
        save(ctx, *fields, *output[: len(POINT)], output[STATUS])
        ctx.mark_non_differentiable(*output[STATUS:-1])

    @staticmethod
    @hidden
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of those fields that need one."""
        guard = guard_of(ctx.solved)
        known = kept(ctx.saved_tensors, guard, patterns_of(ctx.solved))
        needed = ctx.needs_input_grad[1:]
        return (None, *gradients(_linear_solve(ctx.solved), guard, known, needed, bars))

    @staticmethod
    @hidden
    def jvp(ctx: Any, *changes: Tensor | None) -> tuple[Tensor | None, ...]:
        """Tangents of the point and the objective."""
        guard = guard_of(ctx.solved)
        with all_forward_levels():
            patterns = patterns_of(ctx.solved)
            known = kept(primals(ctx.saved_tensors), guard, patterns)
            changed = attached(primals(changes[1:]), patterns)
            moved = tangents(_linear_solve(ctx.solved), guard, known, changed)
        return (*moved, *(None,) * (len(REPORT) + 1))

    @staticmethod
    @hidden
    def vmap(info: Any, dims: tuple[Any, ...], solver: Solver, *fields: Any) -> tuple[Any, Any]:
        """One solve of the larger batch."""
        batched = batch_fields(fields, dims[1:], solver.patterns)
        outputs = SolveFields.apply(solver, *batched)  # type: ignore[no-untyped-call]
        return outputs, (*(0,) * len(OUTPUTS), None)


class SolveKkt(torch.autograd.Function):
    """(V1) for a solved batch: linear in the right-hand side, and symmetric.

    The fields come along because the matrix depends on them, and so that `vmap` knows whether the instances
    differ along its dimension. `columns` counts the dimensions that only the right-hand side has.
    """

    @staticmethod
    @hidden
    def forward(solved: Solved, columns: int, *inputs: Any) -> tuple[Tensor, ...]:
        """New tensors."""
        fields, right_side = inputs[: len(FIELDS)], inputs[len(FIELDS) :]
        if not is_watched(right_side):
            return solve_columns(solved, columns, right_side)
        _require_dense(patterns_of(solved))
        start = [to_tensor(solved.part(name)) for name in POINT]
        known = without_tangents(fields)
        return tuple(kkt_operator(*known, *start, *right_side, text_of(solved), columns))

    @staticmethod
    @hidden
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the solution with its history."""
        ctx.solved, ctx.columns = inputs[:2]
        save(ctx, *inputs[2 : 2 + len(FIELDS)], *output)

    @staticmethod
    @hidden
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        """Another solve with the same matrix."""
        fields, solution = _parted(ctx.saved_tensors, patterns_of(ctx.solved))
        adjoint = _linear_solve(ctx.solved, ctx.columns)(fields, filled(bars, solution))  # (H1)
        P, G, A = matrix_gradients(adjoint, solution, fields, ctx.needs_input_grad[2:], ctx.columns)
        return (None, None, P, None, G, None, A, None, None, None, *adjoint)

    @staticmethod
    @hidden
    def jvp(ctx: Any, *changes: Tensor | None) -> tuple[Tensor | None, ...]:
        """Another solve with the same matrix."""
        with all_forward_levels():
            patterns = patterns_of(ctx.solved)
            fields, solution = _parted(primals(ctx.saved_tensors), patterns)
            changed = primals(changes[2:])
            matrices = matrix_tangent(attached(changed[: len(FIELDS)], patterns), solution, ctx.columns)
            total = tuple([plus(a, b) for a, b in zip(matrices, changed[len(FIELDS) :], strict=True)])
            return tuple(_linear_solve(ctx.solved, ctx.columns)(fields, filled(total, solution)))

    @staticmethod
    @hidden
    def vmap(
        info: Any, dims: tuple[Any, ...], solved: Solved, columns: int, *inputs: Any
    ) -> tuple[tuple[Tensor, ...], int]:
        """More instances, or more right-hand sides for each."""
        fields, field_dims = inputs[: len(FIELDS)], dims[2 : 2 + len(FIELDS)]
        own = any(dim is not None for dim in field_dims)
        vectors, place = batch_vectors(inputs[len(FIELDS) :], dims[2 + len(FIELDS) :], columns, own)
        solve = _linear_solve(solved, columns if own else columns + 1)
        batched = batch_fields(fields, field_dims, patterns_of(solved))
        return tuple(solve(tuple(batched), Vector(*vectors))), place


def differentiable_gradients(
    solved: Solved, needed: tuple[bool, ...], fields: Fields, bars: Fields
) -> list[Tensor | None]:
    """The gradients of the fields for cotangents of x, y, z, ..., with a history that leads to both."""
    given = [constant(solved, name) if v is None else v for name, v in zip(FIELDS, fields, strict=True)]
    doubles = tuple([None if field is None else field.double() for field in given])
    patterns = patterns_of(solved)
    outputs = SolveFields.apply(Solver(lambda _: solved, patterns), *doubles)  # type: ignore[no-untyped-call]
    guard = guard_of(solved)
    known = kept((*doubles, *outputs[: len(POINT)], outputs[STATUS]), guard, patterns)
    wanted = (*(None if bar is None else bar.double() for bar in bars), *(None,) * len(POINT))
    return [
        None if gradient is None or field is None else gradient.to(field.dtype)
        for gradient, field in zip(
            gradients(_linear_solve(solved), guard, known, needed, wanted), fields, strict=True
        )
    ]


def is_watched(tensors: tuple[Any, ...]) -> bool:
    """Whether somebody must see an operator: a mode that draws graphs, or the older of torch's two vmaps."""
    if torch._C._len_torch_dispatch_stack() > 0:
        return True
    return any(isinstance(t, torch.Tensor) and is_legacy_batchedtensor(t) for t in tensors)


def text_of(solved: Solved) -> str:
    """The settings that the batch was solved with, as operators take them."""
    return encode(solved.call.on_failure, solved.call.options)


def patterns_of(solved: Solved) -> Patterns | None:
    """Of the fields that the caller gave by their stored entries."""
    patterns: Patterns | None = solved.call.patterns
    return patterns


def _require_dense(patterns: Patterns | None) -> None:
    if patterns is not None:
        raise NotImplementedError(
            "a graph of tensors, and a vmap of torch.autograd.grad, cannot hold sparse matrices: "
            "use torch.func, or to_dense()"
        )


def guard_of(solved: Solved) -> Guard:
    """What the failure policy means for the derivatives of this batch."""
    return Guard(not solved.batch.all_solved, solved.without_derivative)


def _linear_solve(solved: Solved, columns: int = 0) -> LinearSolve:
    def solve(fields: Fields, right_side: Vector) -> Vector:
        inputs = (*values_of(fields), *right_side)
        return Vector(*SolveKkt.apply(solved, columns, *inputs))  # type: ignore[no-untyped-call]

    return solve


def _parted(saved: tuple[Any, ...], patterns: Patterns | None) -> tuple[Fields, Vector]:
    return attached(saved[: len(FIELDS)], patterns), Vector(*saved[len(FIELDS) :])
