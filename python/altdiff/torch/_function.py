"""The autograd function: translates tensors to arrays, and calls the layer that NumPy uses too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from altdiff import _layer
from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff._dense import DenseBatch
from altdiff.torch._problem import PLACES, problem_from
from altdiff.torch._tensors import as_double, result_type, to_tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._binding import NativeSettings
    from altdiff._layer import Solved


class Call(NamedTuple):
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
        problem = problem_from(call.names, tensors, call.constants)
        solved = _layer.settle(_layer.solve(problem, call.settings), call.on_failure)
        dtype = result_type(tensors)
        return (*(to_tensor(solved.part(name), dtype) for name in call.outputs), solved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keeps the solved batch, and the tensors whose memory it reads: torch sees if they change."""
        ctx.call = inputs[0]
        ctx.solved = output[-1]
        ctx.save_for_backward(*inputs[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Gradients of those tensors that need one."""
        request = Request(ctx.solved, ctx.call, ctx.needs_input_grad[1:])
        inputs = (*ctx.saved_tensors, *bars[:-1])
        # A gradient that will be differentiated again gets a history, so that it can refuse.
        gradients = (
            apply(Adjoint, request, *inputs) if torch.is_grad_enabled() else pull_back(request, inputs)
        )
        return (None, *gradients)


class Request(NamedTuple):
    """What a backward pass asks for."""

    solved: Solved
    call: Call
    needed: tuple[bool, ...]  # which of the tensors need a gradient


def pull_back(request: Request, inputs: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each tensor that needs one, in its own type."""
    names, outputs = request.call.names, request.call.outputs
    bars = {
        name: as_double(name, bar)
        for name, bar in zip(outputs, inputs[len(names) :], strict=True)
        if bar is not None
    }
    needed = [name for name, need in zip(names, request.needed, strict=True) if need]
    batch = request.solved.batch
    gradients = (
        _dense_gradients(request.solved, batch, bars, needed)
        if isinstance(batch, DenseBatch)
        else _array_gradients(request.solved, bars, needed)
    )
    for name, tensor in zip(names, inputs, strict=False):
        if name in gradients and tensor is not None and tensor.dtype is not torch.float64:
            gradients[name] = gradients[name].to(tensor.dtype)
    return tuple(map(gradients.get, names))


def _dense_gradients(
    solved: Solved, batch: DenseBatch, bars: Mapping[str, torch.Tensor], needed: list[str]
) -> dict[str, torch.Tensor]:
    """Written by the core to where they will stay."""
    layout = batch.problem.layout
    used = [name for name in needed if layout.used[name] is not None]
    arrays = batch.pull_back(
        tuple([bars[name].data_ptr() if name in bars else 0 for name in DIFFERENTIABLE]),
        [PLACES[name] for name in used],
        solved.without_derivative,
        solved.only_solved,
    )
    gradients = dict(zip(used, map(torch.from_numpy, arrays), strict=True))
    if not layout.plain:  # a scalar bound, or a field without entries
        for name in needed:
            given = layout.given[name]
            if given == ():
                gradients[name] = gradients[name].sum()
            elif name not in gradients and given is not None:
                gradients[name] = torch.zeros(given, dtype=torch.float64)
    return gradients


def _array_gradients(
    solved: Solved, bars: Mapping[str, torch.Tensor], needed: list[str]
) -> dict[str, torch.Tensor]:
    arrays = _layer.vjp(solved, {name: bar.detach().numpy() for name, bar in bars.items()}, needed)
    return {name: to_tensor(arrays[name]) for name in needed}


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
