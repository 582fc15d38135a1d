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


class Call(NamedTuple):
    """What one call passes beside its fields."""

    settings: NativeSettings
    on_failure: str
    outputs: int = 1  # how many of DIFFERENTIABLE are asked for: x alone, or the first few


class Solve(torch.autograd.Function):
    """The outputs that a call asks for; then the solved batch itself."""

    @staticmethod
    def forward(call: Call, *fields: Argument | None) -> tuple[torch.Tensor | Solved, ...]:
        """Solves in float64 whatever the tensors' type."""
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

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the solved batch, and the tensors whose memory it reads: torch sees if they change."""
        ctx.solved = output[-1]
        ctx.save_for_backward(*[v if isinstance(v, torch.Tensor) else None for v in inputs[1:]])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor | None) -> Tensors:
        """Gradients of those tensors that need one."""
        request = Request(ctx.solved, ctx.needs_input_grad[1:])
        inputs = (*ctx.saved_tensors, *bars[:-1])
        # A gradient that will be differentiated again gets a history, so that it can refuse.
        gradients = (
            apply(Adjoint, request, *inputs) if torch.is_grad_enabled() else pull_back(request, inputs)
        )
        return (None, *gradients)


class Request(NamedTuple):
    """What a backward pass asks for."""

    solved: Solved
    needed: tuple[bool, ...]  # which of the fields need a gradient


def pull_back(request: Request, inputs: Tensors) -> Tensors:
    """The gradient of each field that needs one, in its own type. The cotangents come after the fields."""
    solved, needed = request
    fields, bars = inputs[: len(FIELDS)], inputs[len(FIELDS) :]
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
    def forward(request: Request, *inputs: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """The gradient of each tensor that needs one."""
        return pull_back(request, inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Nothing to keep: the second derivative is refused."""

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> NoReturn:
        """Refuses."""
        raise NotImplementedError(
            "altdiff.torch has first derivatives only: its gradient cannot be differentiated"
        )


def apply(function: type[torch.autograd.Function], *inputs: Any) -> Any:
    """`function.apply`, without the look at its signature, which takes longer than a small problem."""
    if torch._C._are_functorch_transforms_active():
        return function.apply(*inputs)  # type: ignore[no-untyped-call]
    return super(torch.autograd.Function, function).apply(*inputs)  # type: ignore[misc]
