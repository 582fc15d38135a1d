"""The layer under every transform of torch: derivatives of any order, forward and reverse, and `vmap`.

Three functions whose derivatives are written with themselves. On the active set the solution is that of a
linear system, so its derivative and that of a solve are the same: another solve with the same matrix, and
products. Where x is the least of many, the third has a part: the projection on what x is free in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_legacy_batchedtensor

from altdiff._fields import FIELDS, POINT
from altdiff.torch._adjoint import Guard, gradients, kept, tangents
from altdiff.torch._batching import batch_fields, batch_vectors
from altdiff.torch._dynamo import hidden
from altdiff.torch._kkt import flat_columns, solve_columns
from altdiff.torch._least import (
    Asked,
    Maps,
    filled,
    flat_gradients,
    flat_tangent,
    solve_gradients,
    solve_tangent,
    without_multipliers,
)
from altdiff.torch._levels import all_forward_levels, primals, save, without_tangents
from altdiff.torch._operators import encode, flat_operator, kkt_operator, solve_operator
from altdiff.torch._outputs import OUTPUTS, REPORT, STATUS, outputs_of
from altdiff.torch._problem import constant
from altdiff.torch._products import Vector
from altdiff.torch._sparse import attached, values_of
from altdiff.torch._tensors import to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from altdiff._layer import Solved
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
        return (None, *gradients(_maps(ctx.solved), guard, known, needed, bars))

    @staticmethod
    @hidden
    def jvp(ctx: Any, *changes: Tensor | None) -> tuple[Tensor | None, ...]:
        """Tangents of the point and the objective."""
        guard = guard_of(ctx.solved)
        with all_forward_levels():
            patterns = patterns_of(ctx.solved)
            known = kept(primals(ctx.saved_tensors), guard, patterns)
            changed = attached(primals(changes[1:]), patterns)
            moved = tangents(_maps(ctx.solved), guard, known, changed)
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
        several = may_have_several_x(solved)
        return tuple(kkt_operator(*known, *start, *right_side, text_of(solved), columns, several))

    @staticmethod
    @hidden
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the solution with its history; the right-hand side too where its flat part matters."""
        ctx.solved, ctx.columns = inputs[:2]
        fields, right_side = inputs[2 : 2 + len(FIELDS)], inputs[2 + len(FIELDS) :]
        save(ctx, *fields, *output, *(right_side if may_have_several_x(ctx.solved) else ()))

    @staticmethod
    @hidden
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        """Another solve with the same matrix."""
        fields, solution, right_side = _parted(ctx.saved_tensors, patterns_of(ctx.solved))
        maps, asked = _maps(ctx.solved, ctx.columns), Asked(fields, ctx.needs_input_grad[2:], ctx.columns)
        (P, G, A), adjoint = solve_gradients(maps, asked, right_side, solution, filled(bars, solution))
        return (None, None, P, None, G, None, A, None, None, None, *adjoint)

    @staticmethod
    @hidden
    def jvp(ctx: Any, *changes: Tensor | None) -> tuple[Tensor | None, ...]:
        """Another solve with the same matrix."""
        with all_forward_levels():
            patterns = patterns_of(ctx.solved)
            fields, solution, right_side = _parted(primals(ctx.saved_tensors), patterns)
            changed = primals(changes[2:])
            matrices = attached(changed[: len(FIELDS)], patterns)
            maps, both = _maps(ctx.solved, ctx.columns), (right_side, changed[len(FIELDS) :])
            return tuple(solve_tangent(maps, fields, matrices, both, solution, ctx.columns))

    @staticmethod
    @hidden
    def vmap(
        info: Any, dims: tuple[Any, ...], solved: Solved, columns: int, *inputs: Any
    ) -> tuple[tuple[Tensor, ...], int]:
        """More instances, or more right-hand sides for each."""
        fields, field_dims = inputs[: len(FIELDS)], dims[2 : 2 + len(FIELDS)]
        own = any(dim is not None for dim in field_dims)
        vectors, place = batch_vectors(inputs[len(FIELDS) :], dims[2 + len(FIELDS) :], columns, own)
        solve = _maps(solved, columns if own else columns + 1).solve
        batched = batch_fields(fields, field_dims, patterns_of(solved))
        return tuple(solve(tuple(batched), Vector(*vectors))), place


class ProjectFlat(torch.autograd.Function):
    """(L2) for a solved batch: of vectors like x the part along which x can move without cost."""

    @staticmethod
    @hidden
    def forward(solved: Solved, columns: int, *inputs: Any) -> Tensor:
        """A new tensor."""
        fields, v = inputs[: len(FIELDS)], inputs[len(FIELDS)]
        if not is_watched((v,)):
            return flat_columns(solved, columns, v)
        _require_dense(patterns_of(solved))
        start = [to_tensor(solved.part(name)) for name in POINT]
        flat: Tensor = flat_operator(*without_tangents(fields), *start, v, text_of(solved), columns)
        return flat

    @staticmethod
    @hidden
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the vector and its flat part with their history."""
        ctx.solved, ctx.columns = inputs[:2]
        save(ctx, *inputs[2:], output)

    @staticmethod
    @hidden
    def backward(ctx: Any, bar: Tensor | None) -> tuple[Tensor | None, ...]:
        """The map is symmetric."""
        fields, v, flat = _parted_flat(ctx, ctx.saved_tensors)
        if bar is None:
            return (None,) * (3 + len(FIELDS))
        maps, asked = _maps(ctx.solved, ctx.columns), Asked(fields, ctx.needs_input_grad[2:], ctx.columns)
        (P, G, A), own = flat_gradients(maps, asked, v, flat, bar)
        return (None, None, P, None, G, None, A, None, None, None, own)

    @staticmethod
    @hidden
    def jvp(ctx: Any, *changes: Tensor | None) -> Tensor:
        """Two solves and another projection."""
        with all_forward_levels():
            fields, v, flat = _parted_flat(ctx, primals(ctx.saved_tensors))
            *matrices, change = primals(changes[2:])
            changed = attached(tuple(matrices), patterns_of(ctx.solved))
            maps = _maps(ctx.solved, ctx.columns)
            return flat_tangent(maps, fields, changed, (v, change), flat, ctx.columns)

    @staticmethod
    @hidden
    def vmap(
        info: Any, dims: tuple[Any, ...], solved: Solved, columns: int, *inputs: Any
    ) -> tuple[Tensor, int]:
        """More instances, or more vectors for each."""
        *fields, v = inputs
        *field_dims, v_dim = dims[2:]
        own = any(dim is not None for dim in field_dims)
        (moved,), place = batch_vectors((v,), (v_dim,), columns, own)
        batched = batch_fields(fields, field_dims, patterns_of(solved))
        flat = ProjectFlat.apply(solved, columns if own else columns + 1, *batched, moved)  # type: ignore[no-untyped-call]
        return flat, place


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
            gradients(_maps(solved), guard, known, needed, wanted), fields, strict=True
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


def may_have_several_x(solved: Solved) -> bool:
    """Whether some x is one of many; a graph that is drawn may meet such data later."""
    return solved.several_x or torch._C._len_torch_dispatch_stack() > 0


def _maps(solved: Solved, columns: int = 0) -> Maps:
    def solve(fields: Fields, right_side: Vector) -> Vector:
        inputs = (*values_of(fields), *right_side)
        return Vector(*SolveKkt.apply(solved, columns, *inputs))  # type: ignore[no-untyped-call]

    def flat(fields: Fields, v: Tensor) -> Tensor:
        part: Tensor = ProjectFlat.apply(solved, columns, *values_of(fields), v)  # type: ignore[no-untyped-call]
        return part

    return Maps(solve, flat if may_have_several_x(solved) else None)


def _parted(saved: tuple[Any, ...], patterns: Patterns | None) -> tuple[Fields, Vector, Vector | None]:
    """Fields, solution and, where it was kept, the right-hand side."""
    first, second = len(FIELDS), len(FIELDS) + len(POINT)
    right_side = Vector(*saved[second:]) if len(saved) > second else None
    return attached(saved[:first], patterns), Vector(*saved[first:second]), right_side


def _parted_flat(ctx: Any, saved: tuple[Any, ...]) -> tuple[Fields, Vector, Tensor]:
    """Fields, the vector with multipliers that are zero, and its flat part."""
    *fields, v, flat = saved
    sizes = ctx.solved.batch.problem.layout.sizes
    whole = without_multipliers(v.expand(flat.shape), sizes["p"], sizes["m"])
    return attached(tuple(fields), patterns_of(ctx.solved)), whole, flat
