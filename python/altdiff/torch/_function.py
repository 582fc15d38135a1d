"""The autograd function: translates tensors to arrays, and calls the layer that NumPy uses too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from altdiff import _layer
from altdiff._fields import POINT
from altdiff._problem import make_problem
from altdiff._settings import native_settings
from altdiff.torch._tensors import result_type, to_numpy, to_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._layer import Solved

# What a gradient flows through, in the order of the function's outputs.
DIFFERENTIABLE = (*POINT, "objective")


@dataclass(frozen=True)
class Call:
    """What one call passes beside its tensors."""

    names: tuple[str, ...]  # the fields that the tensors are, in order
    constants: Mapping[str, Any]  # the fields that are no tensors
    settings: Mapping[str, Any]
    on_failure: str


class Solve(torch.autograd.Function):
    """x, y, z, z_box and objective of a batch of quadratic programs; then the batch itself."""

    @staticmethod
    def forward(call: Call, *tensors: torch.Tensor) -> tuple[torch.Tensor | Solved, ...]:
        """Solves in float64 whatever the tensors' type."""
        arrays = {name: to_numpy(name, tensor) for name, tensor in zip(call.names, tensors, strict=True)}
        problem = make_problem({**call.constants, **arrays})
        solved = _layer.settle(_layer.solve(problem, native_settings(call.settings)), call.on_failure)
        dtype = result_type(tensors)
        values = {**solved.point, "objective": solved.report["objective"]}
        return (*(to_tensor(values[name], dtype) for name in DIFFERENTIABLE), solved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the solved batch: the core holds its own copy of the data, and its factors."""
        call, *tensors = inputs
        ctx.names = call.names
        ctx.solved = output[-1]
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Gradients of those tensors that need one."""
        needed = [name for name, need in zip(ctx.names, ctx.needs_input_grad[1:], strict=True) if need]
        request = Request(ctx.solved, ctx.names, needed)
        gradients = Adjoint.apply(request, *ctx.saved_tensors, *bars[:-1])  # type: ignore[no-untyped-call]
        by_name = dict(zip(needed, gradients, strict=True))
        return (None, *(by_name.get(name) for name in ctx.names))


@dataclass(frozen=True)
class Request:
    """What a backward pass asks for."""

    solved: Solved
    names: tuple[str, ...]  # the fields that the tensors are, in order
    needed: list[str]  # those that need a gradient


class Adjoint(torch.autograd.Function):
    """The gradients as a function of the tensors and the cotangents.

    A function of its own because autograd would take gradients without a history for constants, and a second
    derivative would silently lack a term.
    """

    @staticmethod
    def forward(request: Request, *inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """One gradient for each needed field, in its tensor's type."""
        count = len(request.names)
        bars: dict[str, Any] = {
            name: None if bar is None else to_numpy(f"{name}_bar", bar)
            for name, bar in zip(DIFFERENTIABLE, inputs[count:], strict=True)
        }
        tensors: dict[str, Any] = dict(zip(request.names, inputs[:count], strict=True))
        gradients = _layer.vjp(request.solved, bars, request.needed)
        return tuple(to_tensor(gradients[name], tensors[name].dtype) for name in request.needed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Nothing to keep: the second derivative is refused."""

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> NoReturn:
        """Refuses."""
        raise NotImplementedError(
            "altdiff.torch has first derivatives only: its gradient cannot be differentiated"
        )
