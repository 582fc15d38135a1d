"""A call while `torch.compile` or `torch.export` draws its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._C._functorch import TransformType, get_interpreter_stack

from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff.torch._dynamo import constant
from altdiff.torch._operators import solve_operator
from altdiff.torch._tensors import result_type, with_history_in_double

if TYPE_CHECKING:
    from altdiff.torch._tensors import Argument


def in_graph(text: str, fields: tuple[Argument | None, ...]) -> tuple[torch.Tensor, ...]:
    """x, y, z, z_box, objective and the report."""
    if _differentiates():
        torch._dynamo.skip_frame(
            "altdiff.torch cannot be compiled inside torch.func.grad, vjp, jvp and what is made of them: "
            "compile without fullgraph=True, or call the transform outside of torch.compile"
        )
    tensors = [value for value in fields if isinstance(value, torch.Tensor)]
    if len(tensors) != len([value for value in fields if value is not None]):
        torch._dynamo.skip_frame("altdiff.torch compiles calls whose arguments are all tensors")
    dtype = result_type(tensors)
    doubles = [with_history_in_double(v) if isinstance(v, torch.Tensor) else None for v in fields]
    outputs = solve_operator(*doubles, text)
    differentiable = [value.to(dtype) for value in outputs[: len(DIFFERENTIABLE)]]
    return (*differentiable, *outputs[len(DIFFERENTIABLE) :])


@constant
def _differentiates() -> bool:
    """Whether a transform other than vmap is at work: torch would silently lose derivatives of operators."""
    return any(level.key() != TransformType.Vmap for level in get_interpreter_stack() or ())
