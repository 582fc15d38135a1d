"""Between torch tensors and the NumPy arrays that the core works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from altdiff._arrays import MatrixLike

    # Tensors may have gradients; arrays and scipy.sparse matrices are constants.
    Argument: TypeAlias = torch.Tensor | MatrixLike


def to_numpy(name: str, tensor: torch.Tensor) -> NDArray[np.float64]:
    """The tensor as a float64 array in C order. May share memory; is not written to."""
    if tensor.dtype is torch.float64 and tensor.is_cpu and tensor.layout is torch.strided:
        array: NDArray[np.float64] = tensor.detach().resolve_neg().numpy()
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)
    if not tensor.is_cpu:
        raise ValueError(f"{name} is on {tensor.device}, but altdiff works on the CPU: pass {name}.cpu()")
    if tensor.layout is not torch.strided:
        raise TypeError(f"{name} is a sparse tensor: pass a scipy.sparse matrix, or {name}.to_dense()")
    if tensor.is_complex() or tensor.dtype is torch.bool:
        raise TypeError(f"{name} must be real numbers, got dtype {str(tensor.dtype).removeprefix('torch.')}")
    converted: NDArray[np.float64] = tensor.detach().resolve_neg().double().contiguous().numpy()
    return converted


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
