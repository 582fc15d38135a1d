"""Between torch tensors and the NumPy arrays that the core works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch

from altdiff._arrays import real_array

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from altdiff._arrays import MatrixLike
    from altdiff.torch._sparse import Sparse

    # Tensors may have gradients; arrays and scipy.sparse matrices are constants.
    Argument: TypeAlias = torch.Tensor | Sparse | MatrixLike


_FLOAT64, _STRIDED = torch.float64, torch.strided


def as_double(name: str, value: Argument) -> torch.Tensor:
    """The argument as a float64 tensor in C order, without a history. May share memory; is not written to."""
    if not isinstance(value, torch.Tensor):
        return torch.from_numpy(real_array(name, value).copy())
    if value.dtype is _FLOAT64 and value.is_cpu and value.layout is _STRIDED:
        if value.is_contiguous() and not value.is_neg():
            return value
        return value.detach().resolve_neg().contiguous()
    require_real_numbers(name, value)
    return value.detach().resolve_neg().double().contiguous()


def require_real_numbers(name: str, value: torch.Tensor) -> None:
    """An error that names the argument, unless it is a dense tensor of real numbers in main memory."""
    if not value.is_cpu:
        raise ValueError(f"{name} is on {value.device}, but altdiff works on the CPU: pass {name}.cpu()")
    if value.layout is not torch.strided:
        raise TypeError(f"{name} is a sparse tensor, and only P, G and A may be: pass {name}.to_dense()")
    if value.is_complex() or value.dtype is torch.bool:
        dtype = str(value.dtype).removeprefix("torch.")
        raise TypeError(f"{name} must be real numbers, got dtype {dtype}")


def with_history_in_double(value: torch.Tensor) -> torch.Tensor:
    """The tensor in float64, differentiably. Of other types than floating ones `as_double` takes care."""
    return value.double() if value.is_floating_point() else value


def to_tensor(array: NDArray[np.generic], dtype: torch.dtype | None = None) -> torch.Tensor:
    """The tensor in an array's memory, which is nobody else's, or a copy in another type."""
    tensor = torch.from_numpy(array)
    return tensor if dtype is None or dtype is tensor.dtype else tensor.to(dtype)


def result_type(tensors: Iterable[torch.Tensor]) -> torch.dtype:
    """The floating type of the answer, as torch promotes it: float64 with float32 gives float64."""
    kind = None
    for tensor in tensors:
        if tensor.dtype is kind or not tensor.is_floating_point():
            continue
        kind = tensor.dtype if kind is None else torch.promote_types(kind, tensor.dtype)
    return torch.get_default_dtype() if kind is None else kind
