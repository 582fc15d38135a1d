"""The autograd function of convex layers, and the way for transforms.

The quick way has first derivatives from the core. Everything else rests on a quadratic program with the same
solution, multipliers and derivatives (N2), whose derivatives of any order `_transform` has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._C._functorch import is_legacy_batchedtensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from altdiff._arrays import is_sparse
from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff._fields import CONSTRAINTS, DIMENSIONS, POINT
from altdiff._layer import Solved
from altdiff._stack import is_list_of_sparse
from altdiff._status import Status
from altdiff.torch._batching import batch_tensors
from altdiff.torch._convex_call import batch_of, pull_back_quickly
from altdiff.torch._dynamo import hidden
from altdiff.torch._evaluate import flattened, rows_of
from altdiff.torch._outputs import REPORT, STATUS, outputs_of
from altdiff.torch._problem import MEMORY_GONE, PLAIN, require_memory
from altdiff.torch._tensors import answer_type, as_double, result_type, to_tensor, with_history_in_double
from altdiff.torch._transform import SolveFields, Solver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from altdiff._arrays import Array
    from altdiff.torch._convex_call import ConvexCall, Tensors
    from altdiff.torch._convex_objective import Bound

_RANKS = tuple(len(DIMENSIONS[name]) for name in CONSTRAINTS)
_TYPES = {*PLAIN, type(None)}
_GRAPHS = {"ProxyTorchDispatchMode", "FakeTensorMode", "FunctionalTensorMode"}
_STEPS = 2  # Newton steps that give the point its history: derivatives up to order 2^2 - 1 are exact


class SolveConvex(torch.autograd.Function):
    """The outputs that a call asks for; then the solved batch itself."""

    @staticmethod
    @hidden
    def forward(ctx: Any, call: ConvexCall, *tensors: Tensor | None) -> tuple[Any, ...]:
        """New tensors."""
        outputs = call.outputs(tensors)
        ctx.save_for_backward(*tensors)
        ctx.solved, ctx.call = outputs[-1], call
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    @hidden
    def backward(ctx: Any, *bars: Tensor | None) -> Tensors:
        """Gradients of those tensors that need one."""
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        given = bars[:-1]
        # A gradient that will be differentiated again, or whose cotangents are a batch, needs a history.
        if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
            return (None, *_with_history(ctx.call, ctx.solved, needed, tensors, given))
        return (None, *_pull_back(ctx.call, ctx.solved, needed, tensors, given))


class SolveDetached(torch.autograd.Function):
    """The OUTPUTS without derivatives, for transforms: `cell` keeps the solved batch for what comes after."""

    @staticmethod
    @hidden
    def forward(cell: Cell, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """New tensors."""
        cell.solved = cell.call.solve(tensors)
        return outputs_of(cell.solved)

    @staticmethod
    @hidden
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """None of it moves."""
        ctx.mark_non_differentiable(*output)

    @staticmethod
    @hidden
    def vmap(info: Any, dims: tuple[Any, ...], cell: Cell, *tensors: Any) -> tuple[Any, Any]:
        """One solve of the larger batch."""
        ranks = (*cell.call.bound.smooth.ranks, *_RANKS)
        outputs = SolveDetached.apply(cell, *batch_tensors(tensors, dims[1:], ranks))  # type: ignore[no-untyped-call]
        return outputs, (0,) * len(outputs)


@dataclass
class Cell:
    """A call, and what it solved."""

    call: ConvexCall
    solved: Solved | None = None

    def known(self, _: tuple[Any, ...]) -> Solved:
        """The batch that `SolveDetached` solved."""
        assert self.solved is not None
        return self.solved


@hidden
def call_convex(call: ConvexCall, fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs that the call asks for, and the solved batch, or under a transform its report."""
    given = (*call.bound.theta, *fields)
    tensors: tuple[Any, ...] = given
    if not _TYPES.issuperset(map(type, given)):
        labels = (*call.bound.labels, *CONSTRAINTS)
        named = zip(labels, given, strict=True)
        tensors = tuple([None if value is None else _tensor(name, value) for name, value in named])
        call = call._replace(dtype=answer_type(given))
    if torch._C._len_torch_dispatch_stack() > 0:
        _require_numbers_in(tensors)
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return _in_transform(call, tensors)
    outputs: tuple[Any, ...] = _apply_solve(call, *tensors)
    return outputs


def _tensor(name: str, value: Any) -> Tensor:
    """The argument as a tensor, which keeps its history if it has one."""
    if isinstance(value, torch.Tensor):
        return value
    if is_sparse(value) or is_list_of_sparse(value):
        raise TypeError(f"{name} is sparse, but convex programs are dense: pass {name}.toarray()")
    return as_double(name, value)


def _require_numbers_in(tensors: Tensors) -> None:
    """TypeError where a graph is drawn: it would hold this call's answer as a constant."""
    modes = {type(mode).__name__ for mode in _get_current_dispatch_mode_stack()}
    plain = all(t is None or type(t) in PLAIN for t in tensors)
    if modes & _GRAPHS or not plain:
        raise TypeError(
            "a convex layer cannot be drawn into a graph, by torch.export, make_fx or fake tensors: call it "
            "outside, or, with torch.compile, leave fullgraph=True out"
        )


def _in_transform(call: ConvexCall, tensors: Tensors) -> tuple[Any, ...]:
    """Types and shapes are changed by torch, so that transforms see it."""
    call.require_dense(tensors)
    doubles = [None if t is None else with_history_in_double(t) for t in tensors]
    theta, fields = call.parted(doubles)
    layout = call.layout(theta, fields)
    theta = [t.expand(shape) for t, shape in zip(theta, layout.used, strict=True)]
    n = layout.program.sizes["n"]
    fields = [f if f is None or f.dim() > 0 else f.expand(n) for f in fields]
    cell = Cell(call)
    detached = [None if t is None else t.detach() for t in (*theta, *fields)]
    outputs: Any = SolveDetached.apply(cell, *detached)  # type: ignore[no-untyped-call]
    moving = attached(cell.known, call.bound, outputs[0], theta, fields)
    dtype = call.dtype or result_type([t for t in tensors if t is not None])
    report = dict(zip(REPORT, outputs[STATUS:], strict=True))
    return (*(value.to(dtype) for value in moving[: call.call.outputs]), report)


def attached(
    solve: Callable[[tuple[Any, ...]], Solved],
    bound: Bound,
    x: Tensor,
    theta: Sequence[Tensor],
    fields: Sequence[Tensor | None],
) -> tuple[Tensor, ...]:
    """x, y, z, z_box and objective of a solved batch with derivatives that lead to theta and the fields.

    A Newton step from the solution gives the solution, with derivatives of twice the order plus one.
    """
    outputs: tuple[Any, ...] = (x,)
    for _ in range(_STEPS):
        x = outputs[0]
        H = bound.smooth.hessian(x, theta)  # (N2)
        q = bound.smooth.gradient(x, theta) - (H @ x.unsqueeze(-1)).squeeze(-1)
        outputs = SolveFields.apply(Solver(solve, None), H, q, *fields)  # type: ignore[no-untyped-call]
    return (*outputs[: len(POINT)], bound.smooth.value(outputs[0], theta))


def _with_history(
    call: ConvexCall, solved: Solved, needed: tuple[bool, ...], tensors: Tensors, bars: Tensors
) -> Tensors:
    """The gradients as functions of tensors and cotangents, for derivatives of higher order."""
    chosen = [i for i, need in enumerate(needed) if need]
    wanted = [i for i, bar in enumerate(bars) if bar is not None]
    x = to_tensor(solved.part("x"))

    def outputs(*moving: Tensor) -> tuple[Tensor, ...]:
        values = list(tensors)
        for i, value in zip(chosen, moving, strict=True):
            values[i] = value
        doubles = [None if t is None else with_history_in_double(t) for t in values]
        theta, fields = call.parted(doubles)
        layout = call.layout(theta, fields)
        expanded = [t.expand(shape) for t, shape in zip(theta, layout.used, strict=True)]
        whole = attached(lambda _: solved, call.bound, x, expanded, fields)
        return tuple(whole[i] for i in wanted)

    pull = torch.func.vjp(outputs, *(tensors[i] for i in chosen))[1]
    found = dict(zip(chosen, pull(tuple(_double(bars[i]) for i in wanted)), strict=True))
    return tuple(found.get(i) for i in range(len(tensors)))


def _double(bar: Tensor | None) -> Tensor:
    assert bar is not None
    return bar.double()


def _pull_back(
    call: ConvexCall, solved: Solved, needed: tuple[bool, ...], tensors: Tensors, bars: Tensors
) -> Tensors:
    """First derivatives: the core has those of the constraints and of built-in terms."""
    quick = pull_back_quickly(solved, needed, tensors, bars)
    if quick is None:
        bars = tuple([bar if bar is None else as_double("the cotangent", bar) for bar in bars])
        quick = pull_back_quickly(solved, needed, tensors, bars)
    if quick is not None:
        return tuple(quick)
    if any(is_legacy_batchedtensor(bar) for bar in bars if bar is not None):
        return _with_history(call, solved, needed, tensors, bars)
    cotangents = {
        name: bar.detach().numpy() for name, bar in zip(DIFFERENTIABLE, bars, strict=False) if bar is not None
    }
    count = len(call.bound.labels)
    batch = batch_of(solved)
    require_memory(solved)
    if any(t.numel() > 0 and t.untyped_storage().nbytes() == 0 for t in batch.numbers):
        raise RuntimeError(MEMORY_GONE)
    own = call.bound.structure is None
    if own and solved.several_x:  # which least x it is depends on how the user's Hessian turns
        return _with_history(call, solved, needed, tensors, bars)
    found = batch.gradients(
        cotangents,
        [] if own else [i for i in range(count) if needed[i]],
        [name for name, need in zip(CONSTRAINTS, needed[count:], strict=True) if need],
        solved.without_derivative,
        solved.only_solved,
        u=own and any(needed[:count]),
    )
    gradients: list[Tensor | None] = [None] * len(tensors)
    for i, array in found.numbers.items():
        gradients[i] = _like(array, tensors[i])
    for name, array in found.fields.items():
        i = count + CONSTRAINTS.index(name)
        gradients[i] = _like(array, tensors[i])
    if found.u is not None:
        gradients[:count] = _own_gradients(
            call, solved, needed[:count], tensors[:count], found.u, cotangents.get("objective")
        )
    return tuple(gradients)


def _own_gradients(
    call: ConvexCall,
    solved: Solved,
    needed: tuple[bool, ...],
    tensors: Tensors,
    u: Array,
    objective_bar: Array | None,
) -> list[Tensor | None]:
    """(d grad f / d theta)'u + objective_bar (d f / d theta), over the instances to which it matters."""
    layout = batch_of(solved).layout
    n = layout.program.sizes["n"]
    bar = np.zeros(layout.program.instances) if objective_bar is None else _silenced(solved, objective_bar)
    flat_u = u.reshape(-1, n)
    rows = torch.from_numpy(np.flatnonzero((flat_u != 0).any(axis=1) | (bar != 0)))
    if len(rows) == 0:
        return _zeros(tensors, needed)
    x = torch.from_numpy(solved.part("x").reshape(-1, n))[rows]
    with torch.enable_grad():
        theta = [
            t.detach().double().requires_grad_(need)
            for t, need in zip(tensors, needed, strict=True)
            if t is not None
        ]
        own = rows_of(layout, flattened(layout, theta), rows)
        along = (call.bound.smooth.gradient(x, own) * torch.from_numpy(flat_u)[rows]).sum()
        if objective_bar is not None:
            along = along + (call.bound.smooth.value(x, own) * torch.from_numpy(bar)[rows]).sum()
        chosen = [t for t in theta if t.requires_grad]
        if not along.requires_grad:  # no theta enters
            return _zeros(tensors, needed)
        found = iter(torch.autograd.grad(along, chosen, allow_unused=True, materialize_grads=True))
    return [
        next(found).to(t.dtype) if need and t is not None else None
        for t, need in zip(tensors, needed, strict=True)
    ]


def _zeros(tensors: Tensors, needed: tuple[bool, ...]) -> list[Tensor | None]:
    return [
        torch.zeros_like(t) if n and t is not None else None for t, n in zip(tensors, needed, strict=True)
    ]


def _silenced(solved: Solved, objective_bar: Array) -> Array:
    failed = solved.report["status"] != Status.SOLVED
    bar: Array = np.where(failed & (objective_bar != 0), solved.without_derivative, objective_bar)
    return bar.reshape(-1)


def _like(array: Array, tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else to_tensor(np.ascontiguousarray(array), tensor.dtype)


# `SolveConvex.apply` without the look at its signature, which takes longer than a small problem.
_apply_solve: Any = super(torch.autograd.Function, SolveConvex).apply
