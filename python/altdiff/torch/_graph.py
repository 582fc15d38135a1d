"""A call while `torch.compile` or `torch.export` draws its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import TransformType, get_interpreter_stack

from altdiff.torch._dynamo import constant
from altdiff.torch._function import Call, call_outputs
from altdiff.torch._operators import decode, operate

if TYPE_CHECKING:
    from altdiff.torch._tensors import Argument

_TRANSFORM = (
    "altdiff.torch cannot be compiled inside torch.func.grad, vjp, jvp and what is made of them: "
    "compile without fullgraph=True, or call the transform outside of torch.compile"
)
_ARRAY = "altdiff.torch compiles calls whose arguments are tensors: compile without fullgraph=True"


def in_graph(text: str, fields: tuple[Argument | None, ...]) -> tuple[torch.Tensor, ...]:
    """x, y, z, z_box, objective and the report."""
    tensors: list[Any] = [value for value in fields if value is None or isinstance(value, torch.Tensor)]
    if len(tensors) < len(fields) or _differentiates():
        # Has the compiler leave this function to Python, which will come here again and carry on.
        torch._dynamo.skip_frame(_TRANSFORM if len(tensors) == len(fields) else _ARRAY)
        on_failure, settings, options = decode(text)
        return call_outputs(Call(settings, on_failure, options), *fields)
    return operate(text, tuple(tensors))


@constant
def _differentiates() -> bool:
    """Whether a transform other than vmap is at work: torch would silently lose derivatives of operators."""
    return any(level.key() != TransformType.Vmap for level in get_interpreter_stack() or ())
