"""A call while `torch.compile` or `torch.export` draws its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad

from altdiff.torch._dynamo import constant, hidden
from altdiff.torch._function import Call, call_outputs
from altdiff.torch._operators import decode, solve_operator
from altdiff.torch._outputs import STATUS
from altdiff.torch._sparse import has_pattern
from altdiff.torch._tensors import result_type, with_history_in_double

if TYPE_CHECKING:
    from altdiff.torch._tensors import Argument


def in_graph(text: str, fields: tuple[Argument | None, ...]) -> tuple[torch.Tensor, ...]:
    """x, y, z, z_box, objective and the report."""
    tensors = [value for value in fields if isinstance(value, torch.Tensor)]
    dtype = result_type(tensors)
    doubles = [_in_double(value) for value in fields]
    # To skip a frame has the compiler leave this function to Python, which comes here again and goes on. The
    # messages are literals because torch would not show others.
    if any(value is not None and double is None for value, double in zip(fields, doubles, strict=True)):
        torch._dynamo.skip_frame(
            "altdiff.torch compiles calls of tensors and numbers: compile without fullgraph=True"
        )
        return _in_python(text, fields)
    if differentiates():
        torch._dynamo.skip_frame(
            "altdiff.torch cannot be compiled inside forward mode or torch.func.grad, vjp, jvp: "
            "compile without fullgraph=True, or call the transform outside of torch.compile"
        )
        return _in_python(text, fields)
    outputs = solve_operator(*doubles, text)
    return (*(value.to(dtype) for value in outputs[:STATUS]), *outputs[STATUS:])


def _in_double(value: Argument | None) -> torch.Tensor | None:
    if isinstance(value, (int, float)):
        return torch.full((), value, dtype=torch.float64)
    if not isinstance(value, torch.Tensor) or has_pattern(value):
        return None
    return with_history_in_double(value)


@hidden
def _in_python(text: str, fields: tuple[Argument | None, ...]) -> tuple[torch.Tensor, ...]:
    on_failure, settings, options = decode(text)
    return call_outputs(Call(settings, on_failure, options), *fields)


@constant
def differentiates() -> bool:
    """Whether a transform other than vmap is at work: torch would silently lose derivatives of operators."""
    transforms = [level.key() for level in get_interpreter_stack() or ()]
    return forward_ad._current_level >= 0 or any(kind != TransformType.Vmap for kind in transforms)
