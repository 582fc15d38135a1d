"""The autograd function: translates tensors to arrays, and calls the layer that NumPy uses too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from altdiff import _layer
from altdiff._fields import FIELDS, POINT
from altdiff._problem import make_problem, problem_of
from altdiff.torch._tensors import result_type, to_numpy, to_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._binding import NativeSettings
    from altdiff._layer import Solved

# What a gradient flows through.
DIFFERENTIABLE = (*POINT, "objective")


@dataclass(frozen=True)
class Call:
    """What one call passes beside its tensors."""

    names: tuple[str, ...]  # the fields that the tensors are, in order
    constants: Mapping[str, Any]  # the fields that are no tensors, and not None
    settings: NativeSettings
    on_failure: str
    outputs: tuple[str, ...]  # what is asked for, of DIFFERENTIABLE


class Solve(torch.autograd.Function):
    """The outputs that a call asks for; then the solved batch itself."""

    @staticmethod
    def forward(call: Call, *tensors: torch.Tensor) -> tuple[torch.Tensor | Solved, ...]:
        """Solves in float64 whatever the tensors' type."""
        values: dict[str, Any] = dict.fromkeys(FIELDS)
        for name, tensor in zip(call.names, tensors, strict=True):
            values[name] = to_numpy(name, tensor)
        problem = make_problem({**values, **call.constants}) if call.constants else problem_of(values)
        solved = _layer.settle(_layer.solve(problem, call.settings), call.on_failure)
        dtype = result_type(tensors)
        return (*(to_tensor(_output(solved, name), dtype) for name in call.outputs), solved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the solved batch, and the tensors whose memory it reads: torch watches over changes of them."""
        call, *tensors = inputs
        ctx.call = call
        ctx.solved = output[-1]
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Gradients of those tensors that need one."""
        call = ctx.call
        needed = tuple(name for name, need in zip(call.names, ctx.needs_input_grad[1:], strict=True) if need)
        request = Request(ctx.solved, call, needed)
        inputs = (*ctx.saved_tensors, *bars[:-1])
        # A gradient that will be differentiated again gets a history, so that it can refuse.
        gradients = apply(Adjoint, request, *inputs) if torch.is_grad_enabled() else pull_back(request, inputs)
        by_name = dict(zip(needed, gradients, strict=True))
        return (None, *(by_name.get(name) for name in call.names))


@dataclass(frozen=True)
class Request:
    """What a backward pass asks for."""

    solved: Solved
    call: Call
    needed: tuple[str, ...]  # the fields that need a gradient


def pull_back(request: Request, inputs: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor, ...]:
    """One gradient for each needed field, in its tensor's type."""
    call = request.call
    count = len(call.names)
    bars: dict[str, Any] = {
        name: None if bar is None else to_numpy(f"{name}_bar", bar)
        for name, bar in zip(call.outputs, inputs[count:], strict=True)
    }
    tensors: dict[str, Any] = dict(zip(call.names, inputs[:count], strict=True))
    gradients = _layer.vjp(request.solved, bars, request.needed)
    return tuple(to_tensor(gradients[name], tensors[name].dtype) for name in request.needed)


class Adjoint(torch.autograd.Function):
    """The gradients as a function of the tensors and the cotangents.

    A function of its own because autograd would take gradients without a history for constants, and a second
    derivative would silently lack a term.
    """

    @staticmethod
    def forward(request: Request, *inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """One gradient for each needed field."""
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


def _output(solved: Solved, name: str) -> Any:
    return solved.report["objective"] if name == "objective" else solved.point[name]
