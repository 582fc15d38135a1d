"""The autograd function: translates tensors to arrays, and calls the layer that NumPy uses too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch._C._functorch import is_legacy_batchedtensor
from torch.autograd import forward_ad

from altdiff import _layer
from altdiff._arrays import is_sparse
from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff._dense import DenseBatch
from altdiff._fields import FIELDS
from altdiff._layer import Solved
from altdiff._stack import is_list_of_sparse
from altdiff._start import parts_of, start_from
from altdiff.torch._dynamo import hidden
from altdiff.torch._operators import encode, solve_operator
from altdiff.torch._outputs import REPORT
from altdiff.torch._problem import exchange, problem_from, require_memory, tensor_problem
from altdiff.torch._sparse import has_pattern, parted
from altdiff.torch._tensors import answer_type, as_double, to_tensor, with_history_in_double
from altdiff.torch._transform import SolveFields, Solver, differentiable_gradients

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from altdiff._arrays import Array, Block
    from altdiff._binding import NativeSettings
    from altdiff._layout import Layout
    from altdiff.torch._sparse import Pattern, Patterns
    from altdiff.torch._tensors import Argument

    Start: TypeAlias = Callable[[Layout], Mapping[str, Array] | None]
    Tensors = tuple[torch.Tensor | None, ...]
    Outputs = tuple[torch.Tensor | Solved, ...]


class Call(NamedTuple):
    """What one call passes beside its fields."""

    settings: NativeSettings
    on_failure: str
    options: Mapping[str, Any]  # the settings as the user gave them
    outputs: int = 1  # how many of DIFFERENTIABLE are asked for: x alone, or the first few
    patterns: Patterns | None = None  # of the fields of which only the stored entries are given
    start: Start | None = None  # where to begin


@dataclass(frozen=True)
class Constant:
    """A sparse argument; hides lists of them from transforms, which would look inside."""

    value: Argument


class Solve(torch.autograd.Function):
    """The outputs that a call asks for; then the solved batch itself. Quick; `SolveFields` can do more."""

    @staticmethod
    @hidden
    def forward(ctx: Any, call: Call, *fields: Argument | None) -> Outputs:
        """Solves in float64 whatever the tensors' type."""
        outputs = solve(call, fields)
        # The tensors whose memory the solved batch reads: torch sees if they change.
        ctx.save_for_backward(*[v if v is None or isinstance(v, torch.Tensor) else None for v in fields])
        ctx.solved = outputs[-1]
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    @hidden
    def backward(ctx: Any, *bars: torch.Tensor | None) -> Tensors:
        """Gradients of those fields that need one."""
        fields, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        # A gradient that will be differentiated again, or whose cotangents are a batch, needs a history.
        if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
            return (None, *differentiable_gradients(ctx.solved, needed, fields, bars[:-1]))
        return (None, *pull_back(ctx.solved, needed, fields, bars[:-1]))


def solve(call: Call, fields: tuple[Argument | None, ...]) -> Outputs:
    """The outputs that the call asks for, and the solved batch."""
    plain = call.patterns is None and call.start is None
    quick = exchange.solve(fields, call.settings, call.outputs) if plain else None
    if quick is None:
        problem = problem_from(fields, call.patterns)
        start = None if call.start is None else call.start(problem.layout)
        solved = _layer.solve(problem, call.settings, start)
        solved.call = call
    else:
        layout, native, outputs = quick
        batch = DenseBatch(tensor_problem(layout, fields), native)  # type: ignore[arg-type]
        solved = Solved(batch, call=call)
        if outputs is not None:
            return (*outputs, solved)
        batch.blame()
    solved = _layer.settle(solved, call.on_failure)
    dtype = answer_type(fields)
    names = DIFFERENTIABLE[: call.outputs]
    return (*(to_tensor(solved.part(name), dtype) for name in names), solved)


def pull_back(solved: Solved, needed: tuple[bool, ...], fields: Tensors, bars: Tensors) -> Tensors:
    """The gradient of each field that needs one, in its own type."""
    bars = tuple([bar if bar is None else as_double("the cotangent", bar) for bar in bars])
    if isinstance(solved.batch, DenseBatch):
        quick = exchange.vjp(
            solved.batch.native, fields, bars, needed, solved.without_derivative, solved.only_solved
        )
        if quick is not None:
            return tuple(quick)
        require_memory(solved)
    if any(is_legacy_batchedtensor(bar) for bar in bars if bar is not None):
        return tuple(differentiable_gradients(solved, needed, fields, bars))
    cotangents = {
        name: bar.detach().numpy() for name, bar in zip(DIFFERENTIABLE, bars, strict=False) if bar is not None
    }
    wanted = [name for name, need in zip(FIELDS, needed, strict=True) if need]
    gradients = _layer.vjp(solved, cotangents, wanted)
    patterns = solved.call.patterns or (None,) * len(FIELDS)
    return tuple(
        _gradient(gradients[name], value, pattern) if name in gradients and value is not None else None
        for name, value, pattern in zip(FIELDS, fields, patterns, strict=True)
    )


def _gradient(gradient: Block, field: torch.Tensor, pattern: Pattern | None) -> torch.Tensor:
    return to_tensor(gradient if pattern is None else pattern.values(gradient), field.dtype)


@hidden
def call_solve(call: Call, *fields: Argument | None) -> Any:
    """The outputs as tensors with a history; last the solved batch, or under a transform its report."""
    if has_pattern(fields[0]) or has_pattern(fields[2]) or has_pattern(fields[4]):
        values, patterns = parted(fields)
        call, fields = call._replace(patterns=patterns), tuple(values)
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return call_in_transform(call, fields)
    if torch._C._len_torch_dispatch_stack() > 0:
        return call_operator(call, fields)
    return _apply_solve(call, *fields)


def start_of(initial: Any) -> Start | None:
    """Begins at an earlier solution, if there is one."""
    if initial is None:
        return None
    parts = parts_of(initial).items()
    values = {name: v.detach() if isinstance(v, torch.Tensor) else v for name, v in parts}
    return partial(start_from, values)


def call_outputs(call: Call, *fields: Argument | None) -> tuple[torch.Tensor, ...]:
    """The OUTPUTS."""
    return all_outputs(call_solve(call._replace(outputs=len(DIFFERENTIABLE)), *fields))


def all_outputs(results: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """The OUTPUTS, of a call that asked for them."""
    *differentiable, report = results
    if isinstance(report, Solved):
        report = {name: to_tensor(report.report[name]) for name in REPORT}
    return (*differentiable, *report.values())


def call_in_transform(call: Call, fields: tuple[Argument | None, ...]) -> tuple[Any, ...]:
    """Types are changed by torch, so that transforms see it."""

    def solved_batch(values: tuple[Any, ...]) -> Any:
        arguments = tuple([v.value if isinstance(v, Constant) else v for v in values])
        # A start has the shape of the call's batch, and the transform may have another.
        return solve(call._replace(outputs=0, start=None), arguments)[-1]

    solver = Solver(solved_batch, call.patterns)
    outputs = SolveFields.apply(solver, *map(in_double, FIELDS, fields))  # type: ignore[no-untyped-call]
    return _results(call, outputs[:-1], fields)


def call_operator(call: Call, fields: tuple[Argument | None, ...]) -> tuple[Any, ...]:
    """For modes that watch operators, or work with tensors that hold no numbers."""
    values = [in_double(name, value) for name, value in zip(FIELDS, fields, strict=True)]
    patterns = call.patterns or (None,) * len(FIELDS)
    for name, value, pattern in zip(FIELDS, values, patterns, strict=True):
        if isinstance(value, Constant) or pattern is not None:
            raise TypeError(f"{name} is a sparse matrix, which a graph of tensors cannot hold")
    return _results(call, solve_operator(*values, encode(call.on_failure, call.options)), fields)


def _results(call: Call, outputs: tuple[Any, ...], fields: tuple[Argument | None, ...]) -> tuple[Any, ...]:
    """Of the OUTPUTS what the call asks for, in its type, and the report."""
    dtype = answer_type(fields)
    report = dict(zip(REPORT, outputs[len(DIFFERENTIABLE) :], strict=True))
    return (*(value.to(dtype) for value in outputs[: call.outputs]), report)


def in_double(name: str, value: Argument | None) -> Any:
    """The argument as a float64 tensor with its history; a constant that is sparse in a box."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return with_history_in_double(value)
    return Constant(value) if is_sparse(value) or is_list_of_sparse(value) else as_double(name, value)


# `Solve.apply` without the look at its signature, which takes longer than a small problem.
_apply_solve: Any = super(torch.autograd.Function, Solve).apply
