"""What autograd functions need to work under nested transforms."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad
from torch.autograd.forward_ad import _set_fwd_grad_enabled

if TYPE_CHECKING:
    from torch import Tensor


def save(ctx: Any, *tensors: Tensor | None) -> None:
    """Keeps tensors for both modes; an absent cotangent or tangent stays None."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.set_materialize_grads(False)


def all_forward_levels() -> Any:
    """Torch turns forward mode off inside a `jvp`; without it the tangents of an outer one would be lost."""
    return _set_fwd_grad_enabled(True) if torch._C._are_functorch_transforms_active() else nullcontext()


def primals(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the tangents of the forward mode whose rule is being computed."""
    return without_tangents(values) if torch._C._are_functorch_transforms_active() else values


def without_tangents(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the tangents of the innermost forward mode."""
    unpack: Any = forward_ad.unpack_dual
    return tuple([unpack(v).primal if isinstance(v, torch.Tensor) else v for v in values])
