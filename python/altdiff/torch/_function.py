"""The autograd function: translates tensors to arrays, and calls the layer that NumPy uses too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from altdiff import _layer
from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff._dense import DenseBatch
from altdiff._fields import FIELDS
from altdiff._layer import Solved
from altdiff.torch._problem import exchange, problem_from, tensor_problem
from altdiff.torch._tensors import as_double, result_type, to_tensor

if TYPE_CHECKING:
    from altdiff._binding import NativeSettings
    from altdiff.torch._tensors import Argument

    Tensors = tuple[torch.Tensor | None, ...]
    Outputs = tuple[torch.Tensor | Solved, ...]


class Call(NamedTuple):
    """What one call passes beside its fields."""

    settings: NativeSettings
    on_failure: str
    outputs: int = 1  # how many of DIFFERENTIABLE are asked for: x alone, or the first few


class Differentiable(torch.autograd.Function):
    """What a call's outputs depend on, and how their gradients come back."""

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor | None) -> Tensors:
        """Gradients of those fields that need one."""
        fields, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        # A gradient that will be differentiated again gets a history, so that it can refuse.
        gradients = (
            Adjoint.apply(ctx.solved, needed, *fields, *bars[:-1])  # type: ignore[no-untyped-call]
            if torch.is_grad_enabled()
            else pull_back(ctx.solved, needed, fields, bars[:-1])
        )
        return (None, *gradients)


class Solve(Differentiable):
    """The outputs that a call asks for; then the solved batch itself."""

    @staticmethod
    def forward(ctx: Any, call: Call, *fields: Argument | None) -> Outputs:
        """Solves in float64 whatever the tensors' type."""
        outputs = solve(call, fields)
        keep(ctx, fields, outputs[-1])
        return outputs


class SolveInTransform(Differentiable):
    """The same for functorch, which asks for it in two steps; one step is faster."""

    @staticmethod
    def forward(call: Call, *fields: Argument | None) -> Outputs:
        """Solves in float64 whatever the tensors' type."""
        return solve(call, fields)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        """Keeps what the gradients need."""
        keep(ctx, inputs[1:], output[-1])


def solve(call: Call, fields: tuple[Argument | None, ...]) -> Outputs:
    """The outputs that the call asks for, and the solved batch."""
    quick = exchange.solve(fields, call.settings, call.outputs)
    if quick is None:
        solved = _layer.solve(problem_from(fields), call.settings)
    else:
        layout, native, outputs = quick
        batch = DenseBatch(tensor_problem(layout, fields), native)  # type: ignore[arg-type]
        solved = Solved(batch)
        if outputs is not None:
            return (*outputs, solved)
        batch.blame()
    solved = _layer.settle(solved, call.on_failure)
    dtype = result_type([value for value in fields if isinstance(value, torch.Tensor)])
    names = DIFFERENTIABLE[: call.outputs]
    return (*(to_tensor(solved.part(name), dtype) for name in names), solved)


def keep(ctx: Any, fields: tuple[Argument | None, ...], solved: torch.Tensor | Solved) -> None:
    """Keeps the solved batch, and the tensors whose memory it reads: torch sees if they change."""
    ctx.solved = solved
    ctx.save_for_backward(*[v if v is None or isinstance(v, torch.Tensor) else None for v in fields])
    ctx.set_materialize_grads(False)


def pull_back(solved: Solved, needed: tuple[bool, ...], fields: Tensors, bars: Tensors) -> Tensors:
    """The gradient of each field that needs one, in its own type."""
    bars = tuple([bar if bar is None else as_double("the cotangent", bar) for bar in bars])
    if isinstance(solved.batch, DenseBatch):
        quick = exchange.vjp(
            solved.batch.native, fields, bars, needed, solved.without_derivative, solved.only_solved
        )
        if quick is not None:
            return tuple(quick)
    cotangents = {
        name: bar.detach().numpy() for name, bar in zip(DIFFERENTIABLE, bars, strict=False) if bar is not None
    }
    wanted = [name for name, need in zip(FIELDS, needed, strict=True) if need]
    gradients = _layer.vjp(solved, cotangents, wanted)
    return tuple(
        to_tensor(gradients[name], value.dtype) if name in gradients and value is not None else None
        for name, value in zip(FIELDS, fields, strict=True)
    )


class Adjoint(torch.autograd.Function):
    """The gradients as a function of the tensors and the cotangents.

    A function of its own because autograd would take gradients without a history for constants, and a second
    derivative would silently lack a term.
    """

    @staticmethod
    def forward(solved: Solved, needed: tuple[bool, ...], *inputs: torch.Tensor | None) -> Tensors:
        """The gradient of each field that needs one."""
        return pull_back(solved, needed, inputs[: len(FIELDS)], inputs[len(FIELDS) :])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Nothing to keep: the second derivative is refused."""

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> NoReturn:
        """Refuses."""
        raise NotImplementedError(
            "altdiff.torch has first derivatives only: its gradient cannot be differentiated"
        )


def call_solve(call: Call, *fields: Argument | None) -> Any:
    """The outputs as tensors with a history, then the solved batch."""
    if torch._C._are_functorch_transforms_active():
        return SolveInTransform.apply(call, *fields)  # type: ignore[no-untyped-call]
    return _apply_solve(call, *fields)


# `Solve.apply` without the look at its signature, which takes longer than a small problem.
_apply_solve: Any = super(torch.autograd.Function, Solve).apply
